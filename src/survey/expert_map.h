// Where the nibbles and block scales of every routed expert lie, for passes that read only one of the two.
// Tolerates a partial checkpoint (it says what is not there); the headers are read once and forgotten.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/index.h"

namespace perigee {

struct TensorPlace {
  std::uint32_t shard = 0;     // index into ExpertMap::shards
  std::uint64_t position = 0;  // in the file
  std::uint64_t bytes = 0;
};

struct ExpertModulePlace {
  TensorPlace nibbles;  // [out, in/2]
  TensorPlace scales;   // [out, in/32] E8M0 or [out, in/16] E4M3
};

// Modules by projection: w1, w2, w3.
using ExpertPlace = std::array<ExpertModulePlace, 3>;

struct ExpertMap {
  ExpertFormat format = ExpertFormat::kNone;
  std::vector<std::string> shards;
  std::map<std::int32_t, std::map<std::int32_t, ExpertPlace>>
      layers;                            // layer -> expert, complete experts only
  std::uint64_t incomplete_experts = 0;  // some of their tensors are in no file that is there
  std::uint64_t missing_shards = 0;
  std::uint64_t scale_bytes = 0, nibble_bytes = 0;  // of the complete experts
};

// kUnsupported if shards disagree about the format; kCorrupt naming the module if its sizes do not go
// together.
ExpertMap map_experts(const std::filesystem::path& checkpoint, const CheckpointIndex& index);

}  // namespace perigee
