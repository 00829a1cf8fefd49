// A weight matrix as it lies in memory or in a checkpoint: y = W x, rows are outputs. A view; whoever loaded
// the weights owns them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perigee {

enum class WeightFormat : std::uint8_t {
  kF32,
  kBf16,
  kMxfp4,    // E2M1, two a byte, even column in the low nibble; E8M0 scale per 32 columns
  kNvfp4,    // E2M1 the same way; E4M3 scale per 16 columns; one multiplier for the whole matrix
  kFp8Tile,  // E4M3; float scale per tile of 128 x 128
};

const char* weight_format_name(WeightFormat format);  // "f32", "bf16", "mxfp4", "nvfp4", "fp8"

struct Matrix {
  WeightFormat format = WeightFormat::kF32;
  std::size_t rows = 0;
  std::size_t columns = 0;
  const std::byte* values = nullptr;  // row-major, no padding between rows
  const std::byte* scales = nullptr;  // kMxfp4 [rows, columns/32], kNvfp4 [rows, columns/16], bytes; kFp8Tile
                                      // [ceil(rows/128), ceil(columns/128)] floats
  float global_scale = 1;             // kNvfp4: multiplies the finished dot product
};

// Bytes of `values` and `scales` together.
std::size_t matrix_bytes(const Matrix& matrix);

// The stored element (row, column), and the block scale that multiplies it; both exact in float. The weight
// is element * scale * global_scale. Slow: the definition.
float matrix_element(const Matrix& matrix, std::size_t row, std::size_t column);
float matrix_scale(const Matrix& matrix, std::size_t row, std::size_t column);

}  // namespace perigee
