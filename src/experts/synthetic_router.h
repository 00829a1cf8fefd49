// Traces of no model: routing drawn at random with statistics that are stated, to compare cache policies
// where no recorded trace is at hand. What a policy gains here it gains from those statistics alone; numbers
// from such a trace are labelled wherever they are shown.
#pragma once

#include "experts/replay.h"
#include "experts/trace.h"

namespace perigee {

struct SyntheticRouting {
  std::uint64_t layers = 93, experts = 896, top_k = 16;
  std::uint64_t first_moe_layer = 1;
  std::uint64_t expert_bytes = 17'547'264;
  std::uint64_t tokens = 1000;
  // Popularity of a layer's experts: the r-th most popular is drawn with weight r^-skew, a different order in
  // each layer.
  double skew = 0.5;
  // The share of a token's experts that its predecessor used as well, met as far as the skew lets it.
  double overlap = 0.29;
  // The share of a layer's experts that the router before foresees.
  double recall = 0.59;
  std::uint64_t seed = 1;
};

Trace make_synthetic_trace(const SyntheticRouting& routing);

// What could be had for such a trace by one who knows the routers' odds exactly (each expert's popularity,
// and the chance that a choice is repeated) but not their draws, and who does not read ahead. To be in memory
// at a visit an expert must have been kept for the whole round before it; so the best is to keep, in each
// round, the experts that are likeliest at the next visit of their layer. That they had to be read once
// before is forgiven. `trace` is make_synthetic_trace's.
ReplayResult replay_knowing_odds(const SyntheticRouting& routing, const Trace& trace, std::size_t slots,
                                 std::size_t skip = 0);

// What a trace has of these, measured on single-token steps: the share of the uses that the most used tenth
// of each layer's experts get, the overlap of a step with the one before, and how much was foreseen.
struct TraceStatistics {
  double popular_share = 0, overlap = 0, recall = 0;
};
TraceStatistics measure_trace(const Trace& trace);

}  // namespace perigee
