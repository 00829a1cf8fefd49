// From "these blocks are wrong" to a sentence that helps: an inverted tensor scale, scales in a kernel's
// order, swapped nibbles, or single blocks with their place, what was expected and what was found.
#pragma once

#include <cstdint>
#include <span>

#include "verify/module.h"
#include "verify/pairs.h"

namespace perigee::verifying {

// Blocks of one piece that are described one by one; the others are counted.
inline constexpr std::size_t kLocatedBlocks = 4;

struct BlockCodes {
  std::uint8_t source, output;
};
inline BlockCodes block_codes(const ModulePiece& piece, std::uint64_t block) {
  const auto code = [block](const ScaleRule& rule, std::span<const std::byte> scales) {
    return std::to_integer<std::uint8_t>(scales[rule.is_mxfp4() ? block / 2 : block]);
  };
  return {code(piece.source, piece.source_scales), code(piece.output, piece.output_scales)};
}

inline unsigned nibble_at(std::span<const std::byte> packed, std::uint64_t block, unsigned element) {
  return std::to_integer<unsigned>(packed[block * 8 + element / 2]) >> (element % 2 * 4) & 15;
}

// Adds one failure for the module if a single cause explains them all, else one for each of `bad_blocks` (the
// first of bad_count) and counts the rest.
void diagnose(const ModulePiece& piece, const ModuleNames& names, const PairHistogram& histogram,
              std::span<const std::uint64_t> bad_blocks, std::uint64_t bad_count, FailureList& failures);

// One block of the piece.
void report_block(const ModulePiece& piece, const ModuleNames& names, const ExpectedCodes& expected,
                  std::uint64_t block, FailureList& failures);

}  // namespace perigee::verifying
