// What a cache policy would have read for a recorded trace, beside the least that any policy could have:
// Belady's rule, which evicts what is needed furthest in the future. Counts experts; no weights are needed.
#pragma once

#include "experts/cache_policy.h"
#include "experts/trace.h"

namespace perigee {

struct ReplayResult {
  std::size_t slots = 0;
  std::uint64_t asked = 0;  // experts that visits needed
  std::uint64_t hits_pinned = 0, hits_pool = 0, hits_prefetch = 0;
  std::uint64_t reads_demand = 0,
                reads_ahead = 0;  // experts read because needed, because foreseen or popular
  std::uint64_t tokens = 0;

  double rate(std::uint64_t hits) const {
    return asked > 0 ? static_cast<double>(hits) / static_cast<double>(asked) : 0;
  }
  double hit_rate() const { return rate(hits_pinned + hits_pool + hits_prefetch); }
  double reads_a_token() const {
    return tokens > 0 ? static_cast<double>(reads_demand + reads_ahead) / static_cast<double>(tokens) : 0;
  }
};

struct ReplayOptions {
  CachePolicyKind policy = CachePolicyKind::kPopular;
  std::size_t slots = 1;
  ExpertUsage usage;  // of an earlier run; may be empty
  double pinned_share = 0.5;
  bool prefetch = false;  // use what the trace says was foreseen
  std::size_t skip = 0;   // visits at the beginning that warm the cache and are not counted
};

ReplayResult replay(const Trace& trace, const ReplayOptions& options);
ReplayResult replay_best(const Trace& trace, std::size_t slots, std::size_t skip = 0);

}  // namespace perigee
