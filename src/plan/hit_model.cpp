#include "plan/hit_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "experts/replay.h"
#include "experts/synthetic_router.h"

namespace perigee {
namespace {

// Layers are alike, so a few stand for all, each with its share of the memory.
constexpr std::uint64_t kLayers = 6;
constexpr std::uint64_t kTokens = 240;
constexpr double kWarmUp = 0.4;  // of the trace

std::uint64_t layers_in(const Trace& trace) {
  std::set<std::uint32_t> layers;
  for (const TraceVisit& visit : trace.visits) layers.insert(visit.layer);
  return layers.size();
}

}  // namespace

HitModel::HitModel(Trace trace, std::uint64_t expert_count, std::string assumption)
    : trace_(std::move(trace)), expert_count_(expert_count), assumption_(std::move(assumption)) {
  const std::uint64_t covered = layers_in(trace_) * trace_.experts;
  if (expert_count > 0) scale_ = static_cast<double>(covered) / static_cast<double>(expert_count);
}

HitModel HitModel::of_trace(Trace trace, const std::string& origin, const ModelSizes& sizes) {
  if (trace.experts != sizes.experts || layers_in(trace) != sizes.moe_layers) {
    fail(ErrorCode::kMismatch, "{} has {} layers of {} experts, the model has {} of {}; record one with it",
         origin, layers_in(trace), trace.experts, sizes.moe_layers, sizes.experts);
  }
  return {std::move(trace), sizes.expert_count(), fmt::format("the routing recorded in {}", origin)};
}

HitModel HitModel::assumed(const ModelSizes& sizes) {
  SyntheticRouting routing;
  if (sizes.experts < 4 * sizes.top_k)
    return {{}, sizes.expert_count(), "every expert as likely as any other"};
  routing.layers = routing.first_moe_layer + std::min(kLayers, sizes.moe_layers);
  routing.experts = sizes.experts;
  routing.top_k = sizes.top_k;
  routing.tokens = kTokens;
  Trace trace = make_synthetic_trace(routing);
  const TraceStatistics seen = measure_trace(trace);
  return {std::move(trace), sizes.expert_count(),
          fmt::format(
              "ASSUMED routing: the most used tenth of experts gets {:.0f} % of uses, {:.0f} % of a token's "
              "experts were its predecessor's",
              100 * seen.popular_share, 100 * seen.overlap)};
}

double HitModel::hit_rate(std::uint64_t slots) const {
  if (slots >= expert_count_) return 1;
  // No policy does worse than keeping any experts; a short trace, in which many come for the first time,
  // seems to.
  const double share = static_cast<double>(slots) / static_cast<double>(expert_count_);
  if (trace_.visits.empty()) return share;
  ReplayOptions options;
  options.slots = static_cast<std::size_t>(std::llround(scale_ * static_cast<double>(slots)));
  if (options.slots == 0) return share;
  options.skip = static_cast<std::size_t>(kWarmUp * static_cast<double>(trace_.visits.size()));
  return std::max(share, replay(trace_, options).hit_rate());
}

}  // namespace perigee
