// A checkpoint folder as a whole: config, index and the headers of its shards, checked against each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_name.h"

namespace perigee {

// One shard's header, without an open file (a 96-shard checkpoint is 96 of these, about 200 MB for K3 in all;
// long-running work opens one at a time instead).
struct ShardHeader {
  std::string file_name;
  std::uint64_t file_bytes = 0;
  std::int64_t modified_ns = 0;
  SafetensorsHeader header;
};

// Reads and checks one shard against the index: every tensor of the file is indexed to this file and vice
// versa. kNotFound if the file is missing, kCorrupt naming the first tensor in which index and file disagree.
ShardHeader read_shard_header(const std::filesystem::path& checkpoint, const CheckpointIndex& index,
                              const std::string& file_name);

// Tensor counts and bytes for people and reports.
struct ClassTotals {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

struct Inventory {
  std::unordered_map<int, ClassTotals> by_class;  // key: static_cast<int>(TensorClass)
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::uint64_t expert_modules = 0;  // w1, w2, w3 counted one by one
  std::uint64_t experts = 0;
  std::uint64_t mxfp4_blocks = 0;    // groups of 32
  std::vector<std::string> unknown;  // names that are not K3's, in file order

  // Adds one tensor. Expert modules are counted at their packed tensor.
  void add(const TensorInfo& tensor);
};

// What the tensors of one expert module are, whatever the manifest says.
// kMxfp4: weight_packed + U8 (or F8_E8M0) weight_scale [out, in/32]; kNvfp4ModelOpt: weight U8 + F8_E4M3
// [out, in/16] + weight_scale_2; kNvfp4CompressedTensors: weight_packed + F8_E4M3 + weight_global_scale.
// kNone: no experts in this header. kUnsupported naming the module for any other combination, kCorrupt if two
// modules disagree.
ExpertFormat detect_expert_format(const SafetensorsHeader& header, const std::string& origin);

}  // namespace perigee
