// Which share of a token's experts will be in memory: a trace of routing replayed through the cache policy at
// the size in question (experts/replay.h). Without a recorded trace one is drawn with stated statistics; what
// a model really does may differ, and only a trace of it can tell.
#pragma once

#include <cstdint>
#include <string>

#include "experts/trace.h"
#include "plan/model_sizes.h"

namespace perigee {

class HitModel {
 public:
  // A recorded trace of this model; kMismatch if it is of another.
  static HitModel of_trace(Trace trace, const std::string& origin, const ModelSizes& sizes);
  // Of routing that is drawn.
  static HitModel assumed(const ModelSizes& sizes);

  // With this many experts in memory, prefetching left out.
  double hit_rate(std::uint64_t slots) const;
  const std::string& assumption() const { return assumption_; }

 private:
  HitModel(Trace trace, std::uint64_t expert_count, std::string assumption);

  Trace trace_;                 // of fewer layers than the model, maybe; empty: every expert is as likely
  double scale_ = 1;            // slots of the trace's layers for one of the model's
  std::uint64_t expert_count_;  // of the model
  std::string assumption_;      // a sentence for people
};

}  // namespace perigee
