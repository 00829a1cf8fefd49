#include "verify/fp8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "verify/decode.h"

namespace perigee::verifying {
namespace {

constexpr std::size_t kLocatedElements = 4;
// ModelOpt rounds the quotient to bf16 (relative 2^-9) before it rounds to E4M3; the tile's maximum lands up
// to as much above 448, because the scale is rounded to bf16, too.
constexpr double kQuotientSlack = 1.0 / 256;
constexpr double kLargest = 448;

// Half the distance of E4M3 neighbours around q: 2^(floor(log2 |q|) - 4), and 2^-10 below the smallest normal
// 2^-6.
double half_step(double q) {
  const double clamped = std::clamp(std::abs(q), 1.0 / 64, 256.0);
  constexpr std::uint64_t kExponentBits = 0x7FF0000000000000u;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(clamped) & kExponentBits) / 16;
}

bool is_correct_rounding(double q, double found) {
  const double excess = std::max(0.0, std::abs(q) - kLargest);
  if (excess > kLargest * 2 * kQuotientSlack) return false;
  return std::abs(q - found) <= half_step(q) + std::abs(q) * kQuotientSlack;
}

VerifyFailure failure_at(const Fp8Piece& piece, std::uint64_t element, double source, double found) {
  VerifyFailure failure;
  failure.check = "fp8";
  failure.file = piece.file;
  failure.tensor = piece.tensor;
  failure.row = element / piece.columns;
  failure.byte = element;
  failure.expected = fmt::format("{:.9g} within half a step", source);
  failure.found = fmt::format("{:.9g}", found);
  failure.message =
      fmt::format("{} row {} column {}: FP8 value times tile scale is {}, the source has {:.9g}",
                  piece.tensor, *failure.row, element % piece.columns, failure.found, source);
  return failure;
}

VerifyFailure scale_failure(const Fp8Piece& piece, std::uint64_t tile_row, std::uint64_t tile_column,
                            float scale) {
  VerifyFailure failure;
  failure.check = "fp8-scale";
  failure.file = piece.file;
  failure.tensor = piece.scale_tensor;
  failure.row = tile_row;
  failure.found = fmt::format("{}", scale);
  failure.expected = "a positive finite number";
  failure.message = fmt::format("{} tile row {} tile column {}: scale is {}, it must be positive and finite",
                                piece.scale_tensor, tile_row, tile_column, scale);
  return failure;
}

// A run of elements of one row under one scale.
struct Run {
  std::uint64_t begin, count;  // in the piece
  double scale;
};

void compare_run(const Fp8Piece& piece, const Run& run, const std::array<double, 256>& decoded,
                 Fp8Result& result) {
  for (std::uint64_t i = run.begin; i < run.begin + run.count; ++i) {
    const double s = bf16_at(piece.source.data() + 2 * i);
    const double code_value = decoded[std::to_integer<unsigned>(piece.output[i])];
    const double o = code_value * run.scale;
    if (!is_correct_rounding(s / run.scale, code_value)) {  // also when either is NaN
      if (result.failures.count < kLocatedElements) {
        result.failures.add(failure_at(piece, piece.first_element + i, s, o));
      } else {
        ++result.failures.count;
      }
      continue;
    }
    const double e = s - o;
    result.error.source_squared += s * s;
    result.error.output_squared += o * o;
    result.error.product += s * o;
    result.error.error_squared += e * e;
    result.error.max_abs_error = std::max(result.error.max_abs_error, std::abs(e));
  }
}

}  // namespace

Fp8Result compare_fp8(const Fp8Piece& piece) {
  Fp8Result result;
  std::array<double, 256> decoded;
  for (unsigned c = 0; c < 256; ++c) decoded[c] = e4m3_value(static_cast<std::uint8_t>(c));
  const std::uint64_t elements = piece.output.size();
  const std::uint64_t column_tiles = (piece.columns + kTile - 1) / kTile;
  const std::uint64_t first_tile_row = piece.first_element / piece.columns / kTile;
  result.error.elements = elements;
  for (std::uint64_t i = 0; i < elements;) {
    const std::uint64_t row = (piece.first_element + i) / piece.columns,
                        column = (piece.first_element + i) % piece.columns;
    const std::uint64_t run_end =
        std::min({column / kTile * kTile + kTile, piece.columns, column + elements - i});
    const std::uint64_t tile = (row / kTile - first_tile_row) * column_tiles + column / kTile;
    const float scale = f32_at(piece.scales.data() + 4 * tile);
    if (scale > 0 && std::isfinite(scale)) {
      compare_run(piece, {i, run_end - column, scale}, decoded, result);
    } else {
      result.failures.add(scale_failure(piece, row / kTile, column / kTile, scale));
    }
    i += run_end - column;
  }
  return result;
}

}  // namespace perigee::verifying
