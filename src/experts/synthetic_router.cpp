#include "experts/synthetic_router.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "base/error.h"

namespace perigee {
namespace {

using Random = std::mt19937_64;

double uniform(Random& random) {
  return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

// One layer's router: some of the last choice, the rest by popularity.
class LayerRouter {
 public:
  LayerRouter(const SyntheticRouting& routing, std::uint64_t seed)
      : random_(seed), top_k_(routing.top_k), order_(routing.experts), sums_(routing.experts) {
    std::iota(order_.begin(), order_.end(), 0U);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
    double sum = 0;
    for (std::size_t rank = 0; rank < sums_.size(); ++rank) {
      sums_[rank] = sum += std::pow(static_cast<double>(rank + 1), -routing.skew);
    }
  }

  // Keeps each expert of the last choice with this probability. Ascending.
  const std::vector<std::uint32_t>& choose(double kept) {
    std::vector<std::uint32_t> chosen;
    for (const std::uint32_t expert : last_) {
      if (uniform(random_) < kept) chosen.push_back(expert);
    }
    fill(chosen, top_k_);
    std::ranges::sort(chosen);
    return last_ = std::move(chosen);
  }

  // Of each expert, that the next choice after `last` has it. Filled places are drawn without putting back; a
  // Poisson stream of draws as long as fills them on average has the same odds but for a trifle.
  void odds_after(const std::vector<std::uint32_t>& last, double kept, double draws,
                  std::span<double> odds) const {
    for (std::size_t rank = 0; rank < order_.size(); ++rank) {
      odds[order_[rank]] = chance_within(draws, rank);
    }
    for (const std::uint32_t expert : last) odds[expert] = kept + (1 - kept) * odds[expert];
  }

  // The length of that stream.
  double draws_that_fill(double places) const {
    const auto filled = [&](double draws) {
      double sum = 0;
      for (std::size_t rank = 0; rank < order_.size(); ++rank) sum += chance_within(draws, rank);
      return sum;
    };
    double low = 0, high = 1;
    while (filled(high) < places) high *= 2;
    for (int i = 0; i < 60; ++i) (filled((low + high) / 2) < places ? low : high) = (low + high) / 2;
    return low;
  }

  // A guess at the choice that is right with this probability, expert by expert.
  std::vector<std::uint32_t> guess(double recall) {
    std::vector<std::uint32_t> guessed;
    for (const std::uint32_t expert : last_) {
      if (uniform(random_) < recall) guessed.push_back(expert);
    }
    while (guessed.size() < top_k_) {
      const std::uint32_t expert = draw();
      if (std::ranges::find(guessed, expert) == guessed.end() && !std::ranges::binary_search(last_, expert)) {
        guessed.push_back(expert);
      }
    }
    for (std::size_t i = guessed.size(); i > 1; --i) std::swap(guessed[i - 1], guessed[random_() % i]);
    return guessed;
  }

 private:
  // That a stream of draws of this length has the expert of this rank.
  double chance_within(double draws, std::size_t rank) const {
    return -std::expm1(-draws * (sums_[rank] - (rank > 0 ? sums_[rank - 1] : 0)));
  }
  std::uint32_t draw() {
    const double at = uniform(random_) * sums_.back();
    const auto found = std::ranges::upper_bound(sums_, at);
    return order_[std::min<std::size_t>(static_cast<std::size_t>(found - sums_.begin()), order_.size() - 1)];
  }
  void fill(std::vector<std::uint32_t>& chosen, std::size_t count) {
    while (chosen.size() < count) {
      const std::uint32_t expert = draw();
      if (std::ranges::find(chosen, expert) == chosen.end()) chosen.push_back(expert);
    }
  }

  Random random_;
  std::size_t top_k_;
  std::vector<std::uint32_t> order_;  // by popularity
  std::vector<double> sums_;
  std::vector<std::uint32_t> last_;
};

double overlap_when_keeping(const SyntheticRouting& routing, double kept) {
  constexpr int kTokens = 400;
  LayerRouter router(routing, routing.seed);
  std::size_t common = 0;
  std::vector<std::uint32_t> before = router.choose(kept);
  for (int i = 0; i < kTokens; ++i) {
    const std::vector<std::uint32_t> now = router.choose(kept);
    common += static_cast<std::size_t>(std::ranges::count_if(
        now, [&](std::uint32_t expert) { return std::ranges::binary_search(before, expert); }));
    before = now;
  }
  return static_cast<double>(common) / (kTokens * static_cast<double>(routing.top_k));
}

// The probability of keeping an expert that makes the overlap wanted; popular ones come back by themselves.
double calibrated(const SyntheticRouting& routing) {
  double low = 0, high = routing.overlap;
  for (int i = 0; i < 12; ++i) {
    const double middle = (low + high) / 2;
    (overlap_when_keeping(routing, middle) < routing.overlap ? low : high) = middle;
  }
  return low;
}

std::vector<LayerRouter> routers_of(const SyntheticRouting& routing) {
  std::vector<LayerRouter> routers;
  for (std::uint64_t layer = 0; layer < routing.layers; ++layer)
    routers.emplace_back(routing, routing.seed * 1'000'003 + layer);
  return routers;
}

// The experts, of all layers, with the best odds: as many as there are slots.
std::vector<bool> likeliest(const std::vector<double>& odds, std::size_t slots) {
  std::vector<std::size_t> ids(odds.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  const std::size_t count = std::min(slots, ids.size());
  std::nth_element(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
      [&](std::size_t a, std::size_t b) { return std::pair(odds[a], b) > std::pair(odds[b], a); });
  std::vector<bool> kept(odds.size(), false);
  for (std::size_t i = 0; i < count; ++i) kept[ids[i]] = true;
  return kept;
}

}  // namespace

ReplayResult replay_knowing_odds(const SyntheticRouting& routing, const Trace& trace, std::size_t slots,
                                 std::size_t skip) {
  const double kept = calibrated(routing);
  const std::vector<LayerRouter> routers = routers_of(routing);
  const double draws = routers[0].draws_that_fill((1 - kept) * static_cast<double>(routing.top_k));
  const std::uint64_t round = routing.layers - routing.first_moe_layer;
  std::vector<double> odds(routing.layers * routing.experts, 0);
  std::vector<std::vector<std::uint32_t>> last(routing.layers);
  std::vector<bool> present;
  ReplayResult result{.slots = slots};
  for (std::size_t v = 0; v < trace.visits.size(); ++v) {
    const TraceVisit& visit = trace.visits[v];
    if (v % round == 0) {
      for (std::uint64_t layer = routing.first_moe_layer; layer < routing.layers; ++layer) {
        routers[layer].odds_after(last[layer], kept, draws,
                                  std::span(odds).subspan(layer * routing.experts, routing.experts));
      }
      present = likeliest(odds, slots);
      if (v >= skip) ++result.tokens;
    }
    last[visit.layer] = visit.experts;
    if (v < skip) continue;
    result.asked += visit.experts.size();
    for (const std::uint32_t expert : visit.experts) {
      const bool hit = present[visit.layer * routing.experts + expert];
      ++(hit ? result.hits_pool : result.reads_demand);
    }
  }
  return result;
}

Trace make_synthetic_trace(const SyntheticRouting& routing) {
  if (routing.top_k == 0 || 2 * routing.top_k > routing.experts ||
      routing.first_moe_layer >= routing.layers) {
    fail(ErrorCode::kUsage, "{} of {} experts in {} layers cannot be drawn", routing.top_k, routing.experts,
         routing.layers);
  }
  const double kept = calibrated(routing);
  std::vector<LayerRouter> routers = routers_of(routing);
  Trace trace{routing.layers, routing.experts, routing.expert_bytes, {}};
  for (std::uint64_t token = 0; token < routing.tokens; ++token) {
    for (auto layer = static_cast<std::uint32_t>(routing.first_moe_layer); layer < routing.layers; ++layer) {
      TraceVisit visit{layer, 1, routers[layer].choose(kept), {}};
      visit.foreseen = routers[layer].guess(routing.recall);
      trace.visits.push_back(std::move(visit));
    }
  }
  return trace;
}

TraceStatistics measure_trace(const Trace& trace) {
  std::vector<std::uint64_t> uses(trace.layers * trace.experts, 0);
  std::vector<const TraceVisit*> last(trace.layers, nullptr);
  std::uint64_t asked = 0, compared = 0, common = 0, foretold = 0, right = 0;
  const auto count_in = [](const std::vector<std::uint32_t>& some, const std::vector<std::uint32_t>& sorted) {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        some, [&](std::uint32_t expert) { return std::ranges::binary_search(sorted, expert); }));
  };
  for (const TraceVisit& visit : trace.visits) {
    if (visit.tokens != 1) continue;
    for (const std::uint32_t expert : visit.experts) ++uses[visit.layer * trace.experts + expert];
    asked += visit.experts.size();
    if (const TraceVisit* before = last[visit.layer]) {
      compared += visit.experts.size();
      common += count_in(visit.experts, before->experts);
    }
    if (!visit.foreseen.empty()) {
      foretold += visit.experts.size();
      right += count_in(visit.foreseen, visit.experts);
    }
    last[visit.layer] = &visit;
  }
  std::uint64_t popular = 0;
  for (std::uint64_t layer = 0; layer < trace.layers; ++layer) {
    const auto begin = uses.begin() + static_cast<std::ptrdiff_t>(layer * trace.experts);
    std::sort(begin, begin + static_cast<std::ptrdiff_t>(trace.experts), std::greater<>());
    popular +=
        std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(trace.experts / 10), std::uint64_t{0});
  }
  const auto share = [](std::uint64_t part, std::uint64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  };
  return {share(popular, asked), share(common, compared), share(right, foretold)};
}

}  // namespace perigee
