#include "experts/replay.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "experts/forecast_record.h"

namespace perigee {
namespace {

// A cache without bytes: the same decisions as StreamedExperts makes, one read after the other.
class Replay {
 public:
  Replay(const Trace& trace, const ReplayOptions& options)
      : trace_(trace),
        options_(options),
        policy_(make_cache_policy(options.policy, {trace.layers, trace.experts, options.slots}, options.usage,
                                  options.pinned_share)),
        entries_(trace.layers * trace.experts) {
    result_.slots = options.slots;
    for (const ExpertKey key : policy_->pinned()) load(key, false);
  }

  void visit(const TraceVisit& visit) {
    policy_->visit(visit.layer, visit.experts);
    forecasts_.judge(visit.foreseen, visit.experts);
    std::vector<ExpertKey> missing;
    for (const std::uint32_t expert : visit.experts) {
      const ExpertKey key{visit.layer, expert};
      if (entry(key).present) {
        count_hit(key);
      } else {
        missing.push_back(key);
      }
    }
    for (const ExpertKey key : std::exchange(reserved_, {})) entry(key).reserved = false;
    result_.asked += visit.experts.size();
    for (const ExpertKey key : missing) {
      if (load(key, false)) ++result_.reads_demand;
    }
  }

  void foresee(const TraceVisit& next) {
    for (std::size_t rank = 0; rank < next.foreseen.size(); ++rank) {
      if (reserved_.size() >= options_.slots / 4) return;
      if (!forecasts_.is_worth_reading(rank)) continue;
      const ExpertKey key{next.layer, next.foreseen[rank]};
      if (!entry(key).present && load(key, true)) ++result_.reads_ahead;
      if (!entry(key).present) return;
      entry(key).reserved = true;
      reserved_.push_back(key);
    }
  }

  ReplayResult& result() { return result_; }

 private:
  struct Entry {
    bool present = false, foreseen = false, reserved = false;
  };
  Entry& entry(ExpertKey key) { return entries_[key.layer * trace_.experts + key.expert]; }

  void count_hit(ExpertKey key) {
    Entry& hit = entry(key);
    if (hit.foreseen && hit.reserved) {
      ++result_.hits_prefetch;
    } else if (policy_->is_pinned(key)) {
      ++result_.hits_pinned;
    } else {
      ++result_.hits_pool;
    }
    hit.foreseen = false;
  }

  bool load(ExpertKey key, bool foreseen) {
    if (count_ == options_.slots) {
      const auto victim = policy_->victim([&](ExpertKey other) { return !entry(other).reserved; });
      if (!victim) return false;
      entry(*victim).present = false;
      policy_->removed(*victim);
      --count_;
    }
    ++count_;
    entry(key) = {true, foreseen, false};
    policy_->inserted(key);
    return true;
  }

  const Trace& trace_;
  const ReplayOptions& options_;
  std::unique_ptr<CachePolicy> policy_;
  std::vector<Entry> entries_;
  std::vector<ExpertKey> reserved_;
  ForecastRecord forecasts_;
  std::size_t count_ = 0;
  ReplayResult result_;
};

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// For every visit and expert, the next visit that needs it.
std::vector<std::vector<std::size_t>> next_uses(const Trace& trace) {
  std::vector<std::size_t> next(trace.layers * trace.experts, kNever);
  std::vector<std::vector<std::size_t>> uses(trace.visits.size());
  for (std::size_t v = trace.visits.size(); v-- > 0;) {
    const TraceVisit& visit = trace.visits[v];
    for (const std::uint32_t expert : visit.experts) {
      std::size_t& of_it = next[visit.layer * trace.experts + expert];
      uses[v].push_back(of_it);
      of_it = v;
    }
  }
  return uses;
}

std::uint64_t counted_tokens(const Trace& trace, std::size_t skip) {
  Trace counted{trace.layers, trace.experts, trace.expert_bytes, {}};
  const std::size_t first = std::min(skip, trace.visits.size());
  counted.visits.assign(trace.visits.begin() + static_cast<std::ptrdiff_t>(first), trace.visits.end());
  return counted.tokens();
}

}  // namespace

ReplayResult replay(const Trace& trace, const ReplayOptions& options) {
  Replay cache(trace, options);
  for (std::size_t v = 0; v < trace.visits.size(); ++v) {
    if (v == options.skip) cache.result() = {.slots = options.slots};
    cache.visit(trace.visits[v]);
    if (options.prefetch && v + 1 < trace.visits.size()) cache.foresee(trace.visits[v + 1]);
  }
  cache.result().tokens = counted_tokens(trace, options.skip);
  return cache.result();
}

ReplayResult replay_best(const Trace& trace, std::size_t slots, std::size_t skip) {
  const std::vector<std::vector<std::size_t>> uses = next_uses(trace);
  std::set<std::pair<std::size_t, std::uint64_t>> present;  // by next use
  std::vector<std::size_t> next(trace.layers * trace.experts, 0);
  std::vector<bool> is_present(next.size(), false);
  ReplayResult result;
  for (std::size_t v = 0; v < trace.visits.size(); ++v) {
    if (v == skip) result = {};
    const TraceVisit& visit = trace.visits[v];
    std::vector<std::size_t> missing;
    const auto put = [&](std::size_t i) {
      const std::uint64_t id = visit.layer * trace.experts + visit.experts[i];
      next[id] = uses[v][i];
      is_present[id] = true;
      present.insert({next[id], id});
    };
    for (std::size_t i = 0; i < visit.experts.size(); ++i) {
      const std::uint64_t id = visit.layer * trace.experts + visit.experts[i];
      if (!is_present[id]) {
        missing.push_back(i);
        continue;
      }
      ++result.hits_pool;
      present.erase({next[id], id});
      put(i);
    }
    for (const std::size_t i : missing) {
      if (present.size() == slots) {
        is_present[present.rbegin()->second] = false;
        present.erase(std::prev(present.end()));
      }
      put(i);
    }
    result.asked += visit.experts.size();
    result.reads_demand += missing.size();
  }
  result.slots = slots;
  result.tokens = counted_tokens(trace, skip);
  return result;
}

}  // namespace perigee
