// FP8 with one scale per 128 x 128 tile (NVIDIA's FP8_PB_WO, DeepSeek's weight_scale_inv): value = fp8 *
// scale. Arithmetic as ModelOpt's FP8QTensor: tile maximum in bf16, scale = amax / 448 in bf16, x / scale in
// bf16, E4M3 RNE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace perigee {

struct Kernels;  // numerics/kernels.h

inline constexpr std::uint64_t kFp8Tile = 128;

// Rows [0, rows) of a bf16 matrix with `columns` columns, rows starting on a tile boundary.
// bf16: rows * columns little-endian bf16; fp8: rows * columns bytes; scales: ceil(rows/128) *
// ceil(columns/128) floats, row-major. A tile of zeros gets scale 1 and zeros. NaN or infinity in the input:
// returns the flat index of the first one, else -1.
std::int64_t quantise_fp8_blocks(std::span<const std::byte> bf16, std::uint64_t rows, std::uint64_t columns,
                                 std::span<std::byte> fp8, std::span<float> scales);
// The same with a chosen instruction set.
std::int64_t quantise_fp8_blocks(std::span<const std::byte> bf16, std::uint64_t rows, std::uint64_t columns,
                                 std::span<std::byte> fp8, std::span<float> scales, const Kernels& kernels);

}  // namespace perigee
