// FP8 by 128 x 128 tiles: find each tile's maximum, then quantise row by row.
#include "numerics/fp8_block.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "numerics/bf16.h"
#include "numerics/e4m3.h"
#include "numerics/kernels.h"

namespace perigee {
namespace {

constexpr std::uint16_t kMagnitudeMask = 0x7FFF;
constexpr std::uint16_t kInfinity = 0x7F80;  // and above: NaN
constexpr float kSmallestBf16 = 0x1p-133f;

std::uint16_t bf16_at(const std::uint8_t* bf16, std::uint64_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, bf16 + 2 * index, sizeof bits);
  return bits;
}

// Magnitudes of bf16 order like their bits.
std::uint16_t largest_magnitude(const std::uint8_t* bf16, std::uint64_t count) {
  std::int16_t largest = 0;  // signed, because that is the maximum every x86 vector unit has
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<std::int16_t>(bf16_at(bf16, i) & kMagnitudeMask);
    largest = std::max(largest, magnitude);
  }
  return static_cast<std::uint16_t>(largest);
}

// ModelOpt divides by a scale of 0 for a tile of zeros and for one whose scale underflows, and writes NaN;
// such tiles get scales that decode to zero and to nearly the source.
float tile_scale(std::uint16_t largest) {
  if (largest == 0) return 1.0f;
  const float scale = round_to_bf16(bf16_value(largest) / kE4m3Max);
  return scale == 0.0f ? kSmallestBf16 : scale;
}

std::int64_t first_not_finite(const std::uint8_t* bf16, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    if ((bf16_at(bf16, i) & kMagnitudeMask) >= kInfinity) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace

std::int64_t quantise_fp8_blocks(std::span<const std::byte> bf16, std::uint64_t rows, std::uint64_t columns,
                                 std::span<std::byte> fp8, std::span<float> scales) {
  return quantise_fp8_blocks(bf16, rows, columns, fp8, scales, best_kernels());
}

std::int64_t quantise_fp8_blocks(std::span<const std::byte> bf16, std::uint64_t rows, std::uint64_t columns,
                                 std::span<std::byte> fp8, std::span<float> scales, const Kernels& kernels) {
  const std::uint64_t tile_columns = columns / kFp8Tile + (columns % kFp8Tile != 0);
  const std::uint64_t tile_rows = rows / kFp8Tile + (rows % kFp8Tile != 0);
  if (columns != 0 && rows > fp8.size() / columns) {
    fail(ErrorCode::kInternal, "an FP8 matrix of {} x {} does not fit into {} bytes", rows, columns,
         fp8.size());
  }
  if (fp8.size() != rows * columns || bf16.size() != 2 * fp8.size() ||
      scales.size() != tile_rows * tile_columns) {
    fail(ErrorCode::kInternal,
         "buffers of {} bf16 bytes, {} FP8 bytes and {} scales do not fit a {} x {} matrix", bf16.size(),
         fp8.size(), scales.size(), rows, columns);
  }
  const auto* in = reinterpret_cast<const std::uint8_t*>(bf16.data());
  auto* out = reinterpret_cast<std::uint8_t*>(fp8.data());
  for (std::uint64_t row = 0; row < rows; row += kFp8Tile) {
    const std::uint64_t end = std::min(row + kFp8Tile, rows);
    for (std::uint64_t column = 0; column < columns; column += kFp8Tile) {
      const std::uint64_t width = std::min(kFp8Tile, columns - column);
      std::uint16_t largest = 0;
      for (std::uint64_t r = row; r < end; ++r) {
        largest = std::max(largest, largest_magnitude(in + 2 * (r * columns + column), width));
      }
      if (largest >= kInfinity) return first_not_finite(in, rows * columns);
      const float scale = tile_scale(largest);
      scales[row / kFp8Tile * tile_columns + column / kFp8Tile] = scale;
      for (std::uint64_t r = row; r < end; ++r) {
        kernels.quantise_fp8(in + 2 * (r * columns + column), width, scale, out + r * columns + column);
      }
    }
  }
  return -1;
}

}  // namespace perigee
