// Gives back the checkpoint that a store was made from: every shard byte for byte, its index and the side
// files. Deliberately all or nothing: an interrupted run starts anew.
#pragma once

#include <cstdint>
#include <filesystem>

#include "pack/workshop.h"

namespace perigee {

struct UnpackOutcome {
  std::uint64_t shards = 0;
  std::uint64_t resumed = 0;  // of them, found whole in what an interrupted run left
  std::uint64_t bytes = 0;
  bool already_complete = false;  // found so, by sizes, headers and the index; nothing was done
  double seconds = 0;
};

// Goes on where an interrupted run stopped (pack/pack_journal.h). kLossy naming the plane if the store's
// trunk was rounded, kUnsupported for a linked store, kExists if `output` has other contents than an
// interrupted run from this store left.
UnpackOutcome unpack_store(const std::filesystem::path& store, const std::filesystem::path& output,
                           const WorkOptions& options);

}  // namespace perigee
