// The portable kernels: the definition of what the faster forms compute.
#include <algorithm>
#include <bit>
#include <cstring>

#include "numerics/bf16.h"
#include "numerics/e4m3.h"
#include "numerics/kernels.h"

namespace perigee {
namespace {

std::uint8_t largest_code(const std::uint8_t* packed, std::size_t bytes) {
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint8_t low = packed[i] & 7;
    const std::uint8_t high = (packed[i] >> 4) & 7;
    largest = std::max({largest, low, high});
  }
  return largest;
}

// Eight bytes at a time: magnitude + 7 carries into the sign bit of every nibble that is not zero.
void count_zeros(const std::uint8_t* packed, ZeroNibbles& nibbles) {
  constexpr std::uint64_t kMagnitudes = 0x7777777777777777u;
  std::uint64_t word;
  std::memcpy(&word, packed, sizeof word);
  const std::uint64_t zeros = ~((word & kMagnitudes) + kMagnitudes) & ~kMagnitudes;
  nibbles.zero += static_cast<std::uint64_t>(std::popcount(zeros));
  nibbles.negative_zero += static_cast<std::uint64_t>(std::popcount(zeros & word));
}

void group_codes(const std::uint8_t* packed, std::size_t groups, std::uint8_t* copy, std::uint8_t* codes,
                 ZeroNibbles& nibbles) {
  for (std::size_t group = 0; group < groups; ++group) {
    codes[group] = largest_code(packed + group * 16, 16);
    count_zeros(packed + group * 16, nibbles);
    count_zeros(packed + group * 16 + 8, nibbles);
  }
  if (copy != nullptr) std::memcpy(copy, packed, groups * 16);
}

void block_codes(const std::uint8_t* packed, std::size_t blocks, std::uint8_t* codes) {
  for (std::size_t block = 0; block < blocks; ++block) codes[block] = largest_code(packed + block * 8, 8);
}

void expand_pairs(const std::uint8_t* scales, std::size_t count, const std::uint8_t* table,
                  std::uint8_t* out) {
  for (std::size_t j = 0; j < count; ++j) out[2 * j] = out[2 * j + 1] = table[scales[j]];
}

std::uint8_t remap_blocks(const std::uint8_t* packed, const std::uint8_t* scales, const std::uint8_t* codes,
                          std::size_t groups, const BlockMaps& maps, std::uint8_t* packed_out,
                          std::uint8_t* blocks_out) {
  std::uint8_t seen = 0;
  for (std::size_t block = 0; block < 2 * groups; ++block) {
    const std::size_t key = std::size_t{8} * scales[block / 2] + codes[block];
    blocks_out[block] = maps.scale[key];
    seen |= maps.scale[key];
    for (std::size_t i = 8 * block; i < 8 * block + 8; ++i) {
      const std::uint8_t low = maps.nibbles[key][packed[i] & 15];
      const std::uint8_t high = maps.nibbles[key][packed[i] >> 4];
      packed_out[i] = static_cast<std::uint8_t>(low | high << 4);
    }
  }
  return seen;
}

void quantise_fp8(const std::uint8_t* bf16, std::size_t count, float scale, std::uint8_t* fp8) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bf16 + 2 * i, sizeof bits);
    fp8[i] = e4m3_encode(round_to_bf16(bf16_value(bits) / scale));
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static constexpr Kernels kKernels = {"scalar",     group_codes,  block_codes,
                                       expand_pairs, remap_blocks, quantise_fp8};
  return kKernels;
}

}  // namespace perigee
