// Gives back the checkpoint that a store was made from: every shard byte for byte, its index and the side
// files. Deliberately all or nothing: an interrupted run starts anew.
#pragma once

#include <cstdint>
#include <filesystem>

#include "pack/workshop.h"

namespace perigee {

struct UnpackOutcome {
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// kLossy naming the plane if the store's trunk was rounded, kUnsupported for a linked store, kExists if
// `output` has other contents than an interrupted run of this left.
UnpackOutcome unpack_store(const std::filesystem::path& store, const std::filesystem::path& output,
                           const WorkOptions& options);

}  // namespace perigee
