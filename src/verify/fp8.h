// Compares a bf16 weight with its FP8 form: E4M3 with one F32 scale per tile of 128 x 128. Every element must
// be a correct rounding of weight / scale; how the scale was chosen is the converter's freedom and shows in
// the error.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "verify/verify.h"

namespace perigee::verifying {

inline constexpr std::uint64_t kTile = 128;

// Consecutive elements of the matrix in row-major order.
struct Fp8Piece {
  std::span<const std::byte> source;  // bf16, [elements]
  std::span<const std::byte> output;  // E4M3, [elements]
  std::span<const std::byte> scales;  // F32, [tile rows of the piece, column tiles]
  std::uint64_t first_element = 0;
  std::uint64_t columns = 1;
  std::string tensor, scale_tensor, file;  // for messages
};

struct Fp8Result {
  ErrorSums error;
  FailureList failures;
};

Fp8Result compare_fp8(const Fp8Piece& piece);

}  // namespace perigee::verifying
