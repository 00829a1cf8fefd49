// A few blocks of one tensor in human form: the codes, the scale that belongs to them, and the values. For
// looking at a checkpoint by eye and for comparing two of them; reads only the bytes that it shows.
// Deliberately no decoder for bulk work: one element at a time, in double.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/dtype.h"

namespace perigee {

struct BlockRequest {
  std::string name;  // a tensor, or a module such as "…experts.5.w1"
  std::uint64_t row = 0;
  std::uint64_t group = 0;  // first group of the row
  std::uint64_t count = 1;  // groups; what lies beyond the end of the row is left out
};

enum class BlockKind {
  kMxfp4,  // 32 nibbles, E8M0 scale
  kNvfp4,  // 16 nibbles, E4M3 scale, float per tensor
  kFp8,    // 128 E4M3 elements of one row, float per 128 x 128 tile
  kPlain,  // 16 elements as they are
};
const char* block_kind_name(BlockKind kind);

struct Block {
  std::uint64_t group = 0;
  std::uint64_t first_column = 0;
  std::vector<std::uint8_t> codes;  // nibbles 0..15 or FP8 bytes; empty for kPlain
  std::uint8_t scale_code = 0;      // E8M0 or E4M3 byte; kMxfp4 and kNvfp4 only
  double scale = 1;                 // of the block or tile, without the tensor's own
  std::vector<double> values;
};

struct BlockView {
  BlockKind kind = BlockKind::kPlain;
  std::string tensor;        // the one that holds the codes or values
  DType dtype = DType::kU8;  // as stored
  std::vector<std::uint64_t> shape;
  std::string scale_tensor;       // empty for kPlain
  std::string tensor_scale_name;  // weight_scale_2 or weight_global_scale; kNvfp4 only
  std::optional<float> tensor_scale;
  bool tensor_scale_divides = false;    // compressed-tensors divides, ModelOpt multiplies
  std::uint64_t rows = 0, columns = 0;  // logical: a nibble is an element
  std::uint64_t group_size = 0, groups_per_row = 0;
  std::uint64_t row = 0;
  std::vector<Block> blocks;
};

// kNotFound with similar names if there is no such tensor or module; kUsage with the valid range for a row or
// group beyond the end; kCorrupt if the shapes of weight and scale do not go together.
BlockView view_blocks(const std::filesystem::path& checkpoint, const BlockRequest& request);

}  // namespace perigee
