// Rounds rows of a bf16 matrix to a plane's format and measures the error. Pure: no files, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verify/verify.h"

namespace perigee {

// Rows of a matrix that begin on a tile boundary.
struct MatrixRows {
  std::span<const std::byte> bf16;
  std::uint64_t rows = 0, columns = 0;
};

// Index of the first value that is not finite, or -1; nothing useful is written then. fp8: rows * columns
// bytes; scales: a float for every tile.
std::int64_t round_to_fp8(const MatrixRows& source, std::span<std::byte> fp8, std::span<float> scales,
                          ErrorSums& error);

// nibbles: rows * columns / 2 bytes; scales: a byte for 16 columns.
void round_to_nvfp4(const MatrixRows& source, float scale_2, std::span<std::byte> nibbles,
                    std::span<std::byte> scales, ErrorSums& error);

}  // namespace perigee
