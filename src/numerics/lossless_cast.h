// MXFP4 -> NVFP4 without rounding (docs/formats.md): nibbles stay, each E8M0 group scale becomes two equal
// E4M3 block scales relative to one power of two per scale-sharing set.
//   K = largest exponent over the active groups of the set, m = K - 8, tensor scale 2^m,
//   block scale 2^(k - m); exact iff 0 <= K - k <= 17.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace perigee {

struct Kernels;  // numerics/kernels.h

inline constexpr int kExactSpan = 17;         // binades below K that E4M3 can hold exactly
inline constexpr int kMarlinSafeSpan = 14;    // below that Marlin flushes the block to zero at run time
inline constexpr int kMinMaxExponent = -118;  // smallest K whose 2^m is a normal float

// E4M3 byte for every E8M0 byte at a given K (of active groups). Out-of-window bytes get the value clamped
// into [2^-9, 2^8], which is right for zero groups and is never used for active ones without an explicit
// policy.
struct CastTable {
  int max_exponent = 0;  // K
  std::array<std::uint8_t, 256> code{};
};
CastTable make_cast_table(int max_exponent);

// 2^(K-8) and 2^(8-K) as floats; K in [-118, 127].
float cast_scale_2(int max_exponent);
float cast_global_scale(int max_exponent);

// out[2 j] = out[2 j + 1] = table.code[scales[j]]; out.size() == 2 * scales.size().
void expand_scales(std::span<const std::byte> scales, const CastTable& table, std::span<std::byte> out);
// The same with a chosen instruction set.
void expand_scales(std::span<const std::byte> scales, const CastTable& table, std::span<std::byte> out,
                   const Kernels& kernels);
void expand_scales_reference(std::span<const std::byte> scales, const CastTable& table,
                             std::span<std::byte> out);

// The way back: E4M3 pairs -> E8M0 bytes. Returns the index of the first block pair that is not one power of
// two twice (or whose exponent leaves [-127, 127]), or -1 when all were written. scale_2_exponent is m.
std::int64_t contract_scales(std::span<const std::byte> blocks, int scale_2_exponent,
                             std::span<std::byte> out);

}  // namespace perigee
