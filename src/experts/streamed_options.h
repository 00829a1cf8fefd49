// How experts are streamed: what a command line decides and a loader passes on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/async_io.h"
#include "experts/cache_policy.h"

namespace perigee {

// When the bytes of an expert are compared with the checksum of its place, where there is one.
enum class VerifyReads {
  kAlways,  // after every read
  kFirst,   // after the first read of each expert
  kNever,
};

struct StreamedOptions {
  std::size_t slots = 1;  // experts in memory
  CachePolicyKind policy = CachePolicyKind::kPopular;
  double pinned_share = 0.5;  // of the slots, for the popular set
  ExpertUsage usage = {};     // of earlier runs; may be empty
  VerifyReads verify = VerifyReads::kFirst;
  bool prefetch = true;
  bool lock_memory = false;
  unsigned reads_per_drive = 4;                            // under way at a time; docs/streaming.md
  std::function<std::unique_ptr<AsyncIo>()> make_io = {};  // empty: the best there is
};

}  // namespace perigee
