// The inner loops that exist in several instruction sets, and the choice between them. One portable
// definition (scalar) and faster forms with the same result bit for bit. Deliberately without policy: what a
// scan counts, what a table holds and which sizes fit together is decided by the callers, which also check
// sizes; kernels take raw pointers of any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace perigee {

struct ZeroNibbles {
  std::uint64_t zero = 0;           // codes 0 and 8
  std::uint64_t negative_zero = 0;  // code 8
};

// What requantisation does to a block of 16 with group scale byte b and largest magnitude code c, at key 8 b
// + c: the E4M3 block scale and the new nibble for each old one. kNoScale marks keys that the set does not
// contain.
struct BlockMaps {
  static constexpr std::size_t kKeys = 256 * 8;
  static constexpr std::uint8_t kNoScale = 0x80;
  std::uint8_t nibbles[kKeys][16];
  std::uint8_t scale[kKeys];
};

struct Kernels {
  const char* name;

  // codes[j]: largest magnitude code among the 32 nibbles packed[16 j, 16 j + 16). Copies packed to copy
  // unless that is null. Adds to nibbles.
  void (*group_codes)(const std::uint8_t* packed, std::size_t groups, std::uint8_t* copy, std::uint8_t* codes,
                      ZeroNibbles& nibbles);
  // codes[j]: the same for the 16 nibbles packed[8 j, 8 j + 8).
  void (*block_codes)(const std::uint8_t* packed, std::size_t blocks, std::uint8_t* codes);
  // out[2 j] = out[2 j + 1] = table[scales[j]]; table has 256 entries.
  void (*expand_pairs)(const std::uint8_t* scales, std::size_t count, const std::uint8_t* table,
                       std::uint8_t* out);
  // Applies maps to `groups` groups of two blocks; codes as from block_codes. Returns the OR of all scales
  // written, so that bit 7 tells of a key without an entry.
  std::uint8_t (*remap_blocks)(const std::uint8_t* packed, const std::uint8_t* scales,
                               const std::uint8_t* codes, std::size_t groups, const BlockMaps& maps,
                               std::uint8_t* packed_out, std::uint8_t* blocks_out);
  // fp8[i] = E4M3(bf16(bf16[i] / scale)), saturating; input finite, scale > 0.
  void (*quantise_fp8)(const std::uint8_t* bf16, std::size_t count, float scale, std::uint8_t* fp8);
};

// Fastest that this processor can run; decided once.
const Kernels& best_kernels();
// Every form that this processor can run, slowest first; the first is scalar.
const std::vector<const Kernels*>& available_kernels();

// The forms themselves. Running one that the processor lacks ends in SIGILL, so only the functions above take
// these.
const Kernels& scalar_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();  // needs F, BW, VL and VBMI (Ice Lake, Zen 4 and later), and AVX2

}  // namespace perigee
