#include "compute/matrix.h"

#include <bit>
#include <cstring>

#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"

namespace perigee {
namespace {

constexpr std::size_t kMxfp4Group = 32;
constexpr std::size_t kNvfp4Group = 16;
constexpr std::size_t kFp8TileSide = 128;

template <typename T>
T load(const std::byte* bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

std::size_t tiles(std::size_t length) {
  return (length + kFp8TileSide - 1) / kFp8TileSide;
}

}  // namespace

const char* weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kMxfp4:
      return "mxfp4";
    case WeightFormat::kNvfp4:
      return "nvfp4";
    case WeightFormat::kFp8Tile:
      return "fp8";
  }
  return "";
}

std::size_t matrix_bytes(const Matrix& matrix) {
  const std::size_t elements = matrix.rows * matrix.columns;
  switch (matrix.format) {
    case WeightFormat::kF32:
      return elements * 4;
    case WeightFormat::kBf16:
      return elements * 2;
    case WeightFormat::kMxfp4:
      return elements / 2 + elements / kMxfp4Group;
    case WeightFormat::kNvfp4:
      return elements / 2 + elements / kNvfp4Group;
    case WeightFormat::kFp8Tile:
      return elements + tiles(matrix.rows) * tiles(matrix.columns) * sizeof(float);
  }
  return 0;
}

float matrix_element(const Matrix& matrix, std::size_t row, std::size_t column) {
  const std::size_t index = row * matrix.columns + column;
  switch (matrix.format) {
    case WeightFormat::kF32:
      return load<float>(matrix.values, index);
    case WeightFormat::kBf16:
      return bf16_value(load<std::uint16_t>(matrix.values, index));
    case WeightFormat::kMxfp4:
    case WeightFormat::kNvfp4: {
      const auto pair = load<std::uint8_t>(matrix.values, index / 2);
      return e2m1_value(index % 2 == 0 ? pair & 15 : pair >> 4);
    }
    case WeightFormat::kFp8Tile:
      return e4m3_value(load<std::uint8_t>(matrix.values, index));
  }
  return 0;
}

float matrix_scale(const Matrix& matrix, std::size_t row, std::size_t column) {
  switch (matrix.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      return 1;
    case WeightFormat::kMxfp4:
      return e8m0_value(load<std::uint8_t>(matrix.scales, (row * matrix.columns + column) / kMxfp4Group));
    case WeightFormat::kNvfp4:
      return e4m3_value(load<std::uint8_t>(matrix.scales, (row * matrix.columns + column) / kNvfp4Group));
    case WeightFormat::kFp8Tile:
      return load<float>(matrix.scales, row / kFp8TileSide * tiles(matrix.columns) + column / kFp8TileSide);
  }
  return 1;
}

}  // namespace perigee
