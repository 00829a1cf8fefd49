// bf16 to NVFP4: 16 nibbles share an E4M3 scale, and a whole matrix a float. Arithmetic as ModelOpt's
// NVFP4QTensor: scale_2 = amax / (6 * 448), block scale = amax(block) / 6 / scale_2 in E4M3, nibble =
// E2M1(x / (block scale * scale_2)), ties to even. Deliberately no calibration: weights only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace perigee {

inline constexpr std::uint64_t kNvfp4Block = 16;

// Largest magnitude of little-endian bf16 values; infinity or NaN if any is.
float bf16_largest(std::span<const std::byte> bf16);

// The scale of a matrix with this largest magnitude, finite; 1 for a matrix of zeros.
float nvfp4_scale_2(float largest);

// Whole blocks of finite values, none larger than scale_2 was made for. nibbles: two a byte, the even one
// low; scales: one byte a block. A block of zeros gets scale 1, one whose scale underflows the smallest scale
// that there is (ModelOpt would divide by zero).
void quantise_nvfp4_blocks(std::span<const std::byte> bf16, float scale_2, std::span<std::byte> nibbles,
                           std::span<std::byte> scales);

}  // namespace perigee
