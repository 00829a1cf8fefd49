#include "pack/plane_rounding.h"

#include <array>
#include <cmath>
#include <cstring>

#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/fp8_block.h"
#include "numerics/nvfp4_block.h"

namespace perigee {
namespace {

std::array<float, 256> e4m3_table() {
  std::array<float, 256> table{};
  for (unsigned code = 0; code < table.size(); ++code)
    table[code] = e4m3_value(static_cast<std::uint8_t>(code));
  return table;
}

std::array<float, 16> e2m1_table() {
  std::array<float, 16> table{};
  for (unsigned code = 0; code < table.size(); ++code)
    table[code] = e2m1_value(static_cast<std::uint8_t>(code));
  return table;
}

double source_value(std::span<const std::byte> bf16, std::uint64_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, bf16.data() + 2 * index, sizeof bits);
  return bf16_value(bits);
}

void measure(double source, double stored, ErrorSums& error) {
  const double difference = stored - source;
  error.source_squared += source * source;
  error.output_squared += stored * stored;
  error.product += source * stored;
  error.error_squared += difference * difference;
  error.max_abs_error = std::max(error.max_abs_error, std::fabs(difference));
}

}  // namespace

std::int64_t round_to_fp8(const MatrixRows& source, std::span<std::byte> fp8, std::span<float> scales,
                          ErrorSums& error) {
  static const std::array<float, 256> kValues = e4m3_table();
  const std::int64_t bad = quantise_fp8_blocks(source.bf16, source.rows, source.columns, fp8, scales);
  if (bad >= 0) return bad;
  const std::uint64_t column_tiles = (source.columns + kFp8Tile - 1) / kFp8Tile;
  for (std::uint64_t i = 0; i < fp8.size(); ++i) {
    const std::uint64_t tile = i / source.columns / kFp8Tile * column_tiles + i % source.columns / kFp8Tile;
    const double stored = double{kValues[std::to_integer<std::uint8_t>(fp8[i])]} * scales[tile];
    measure(source_value(source.bf16, i), stored, error);
  }
  error.elements += fp8.size();
  return -1;
}

void round_to_nvfp4(const MatrixRows& source, float scale_2, std::span<std::byte> nibbles,
                    std::span<std::byte> scales, ErrorSums& error) {
  static const std::array<float, 16> kValues = e2m1_table();
  quantise_nvfp4_blocks(source.bf16, scale_2, nibbles, scales);
  for (std::uint64_t i = 0; i < nibbles.size(); ++i) {
    const auto pair = std::to_integer<std::uint8_t>(nibbles[i]);
    const auto scale = std::to_integer<std::uint8_t>(scales[i / (kNvfp4Block / 2)]);
    const double unit = double{e4m3_value(scale)} * scale_2;
    measure(source_value(source.bf16, 2 * i), kValues[pair & 15] * unit, error);
    measure(source_value(source.bf16, 2 * i + 1), kValues[pair >> 4] * unit, error);
  }
  error.elements += 2 * nibbles.size();
}

}  // namespace perigee
