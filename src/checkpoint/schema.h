// The released layout computed from a config: every tensor with its name, type and shape, and the file it is
// in. Used to plan without shards, to check shapes, and to make synthetic checkpoints. With the released
// config it reproduces the release: 96 files, 497,220 tensors, 1,560,860,324,864 bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

namespace perigee {

struct SchemaShard {
  std::string file_name;            // "model-00001-of-000096.safetensors"
  std::vector<TensorInfo> tensors;  // released order inside the file, offsets assigned
};

// Tensors of one decoder layer in the released order (the six tensors of an expert are one contiguous run:
// w1 packed, w1 scale, w2 packed, w2 scale, w3 packed, w3 scale). Offsets are not assigned.
std::vector<TensorInfo> layer_tensors(const K3Config& config, std::uint64_t layer);

// One shard per layer, then head, projector and vision: num_hidden_layers + 3 files.
std::vector<SchemaShard> released_layout(const K3Config& config);

}  // namespace perigee
