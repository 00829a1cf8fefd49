// What a store's trunk file of one source shard holds: every tensor of the shard that is no part of an
// expert's record, in the shard's order, each as its plane's format asks. Decided from the header alone, so
// that sizes are known before anything is read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "pack/planes.h"

namespace perigee {

struct TrunkTensor {
  TensorInfo source;
  std::optional<Plane> plane;
  PlaneFormat format = PlaneFormat::kBf16;  // in the store
  std::vector<TensorInfo> stored;           // offsets assigned
};

struct TrunkPlan {
  std::vector<TrunkTensor> tensors;
  std::vector<TensorInfo> leftovers;  // of experts, but nothing that a record holds: scales of activations
  std::string header;                 // the file's first bytes
  std::uint64_t file_bytes = 0;
  std::uint64_t source_bytes = 0;  // of `tensors`
};

// Whether a record of the store holds this tensor's bytes.
bool is_in_record(const TensorInfo& tensor, const K3Config& config);

TrunkPlan plan_trunk(const SafetensorsHeader& shard, const K3Config& config, const PlaneFormats& formats);

}  // namespace perigee
