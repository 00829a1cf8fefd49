#include "proof/expert_difference.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "numerics/e4m3.h"
#include "numerics/e8m0.h"

namespace perigee {
namespace {

constexpr std::size_t kBlock = 16;  // weights that share a scale in both forms

bool is_four_bit(const Matrix& matrix) {
  return matrix.format == WeightFormat::kMxfp4 || matrix.format == WeightFormat::kNvfp4;
}

// Every product below has fewer bits than a double holds, so equal numbers compare equal.
double weight(const Matrix& matrix, std::size_t row, std::size_t column) {
  return static_cast<double>(matrix_element(matrix, row, column)) *
         static_cast<double>(matrix_scale(matrix, row, column)) * static_cast<double>(matrix.global_scale);
}

// What a 4-bit matrix multiplies its elements by, for every scale byte.
std::array<double, 256> scale_values(const Matrix& matrix) {
  std::array<double, 256> values;
  for (std::size_t byte = 0; byte < values.size(); ++byte) {
    const auto code = static_cast<std::uint8_t>(byte);
    const float scale = matrix.format == WeightFormat::kMxfp4 ? e8m0_value(code) : e4m3_value(code);
    values[byte] = static_cast<double>(scale) * static_cast<double>(matrix.global_scale);
  }
  return values;
}

// Finds blocks that are surely equal quickly: the same nibbles under scales of the same value.
class BlockScales {
 public:
  BlockScales(const Matrix& matrix)
      : matrix_(matrix),
        values_(scale_values(matrix)),
        per_scale_(matrix.format == WeightFormat::kMxfp4 ? 2 : 1) {}
  double operator[](std::size_t block) const {
    return values_[static_cast<std::uint8_t>(matrix_.scales[block / per_scale_])];
  }

 private:
  const Matrix& matrix_;
  const std::array<double, 256> values_;
  const std::size_t per_scale_;
};

bool same_nibbles(const Matrix& a, const Matrix& b, std::size_t block) {
  return std::memcmp(a.values + block * kBlock / 2, b.values + block * kBlock / 2, kBlock / 2) == 0;
}

std::optional<ExpertDifference> difference_in(const char* name, const Matrix& a, const Matrix& b,
                                              std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    const std::size_t row = i / a.columns, column = i % a.columns;
    const double expected = weight(a, row, column), found = weight(b, row, column);
    if (expected == found) continue;
    return ExpertDifference{name, row, column, expected, found};
  }
  return std::nullopt;
}

std::optional<ExpertDifference> matrix_difference(const char* name, const Matrix& a, const Matrix& b) {
  const std::size_t elements = a.rows * a.columns;
  if (!is_four_bit(a) || !is_four_bit(b)) return difference_in(name, a, b, 0, elements);
  const BlockScales scales_a(a), scales_b(b);
  for (std::size_t block = 0; block < elements / kBlock; ++block) {
    if (scales_a[block] == scales_b[block] && same_nibbles(a, b, block)) continue;
    if (auto difference = difference_in(name, a, b, block * kBlock, kBlock)) return difference;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ExpertDifference> first_difference(const ExpertWeights& expected, const ExpertWeights& found) {
  if (auto difference = matrix_difference("w1", expected.w1, found.w1)) return difference;
  if (auto difference = matrix_difference("w2", expected.w2, found.w2)) return difference;
  return matrix_difference("w3", expected.w3, found.w3);
}

}  // namespace perigee
