// Compares one expert module, or a piece of it, on both sides of a conversion. Two passes: a fast one that
// proves equality from integers, and, where that does not succeed, a joint histogram of (source nibble,
// output nibble) per pair of block scales, from which every number and every judgement follows. Deliberately
// knows nothing of files: it gets bytes and the names to use in messages.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verify/decode.h"
#include "verify/verify.h"

namespace perigee::verifying {

// Names for messages. All of the output side.
struct ModuleNames {
  std::string packed_tensor, packed_file;
  std::string scale_tensor, scale_file;
  std::string factor_tensor, factor_file;  // weight_scale_2 or weight_global_scale; empty for MXFP4
};

// Consecutive blocks of 16 weights of a module in row-major order, on both sides.
struct ModulePiece {
  ScaleRule source, output;
  std::span<const std::byte> source_packed, source_scales;  // [blocks, 8], [blocks / (2 or 1)]
  std::span<const std::byte> output_packed, output_scales;
  std::uint64_t first_block = 0;  // of the piece within the module
  std::uint64_t blocks_per_row = 1;
  bool whole = true;  // the piece is the whole module
  unsigned decode_every = 61;

  std::uint64_t blocks() const { return source_packed.size() / 8; }
};

// What a piece adds to its module.
struct PieceResult {
  std::array<std::uint32_t, 256> active{},
      zero{};             // source blocks by scale code; active = a nibble other than 0 and 8
  VerifiedModule counts;  // sums only
  bool measured = false;  // counts.error covers the piece
  FailureList failures;
};

PieceResult compare_piece(const ModulePiece& piece, const ModuleNames& names);

// Adds a piece to the module's record. Pieces must come in order.
void add_piece(VerifiedModule& module, const PieceResult& piece, const ScaleRule& source_rule);

}  // namespace perigee::verifying
