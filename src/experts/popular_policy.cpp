#include "experts/popular_policy.h"

#include <algorithm>
#include <bit>

namespace perigee {
namespace {

// Visits after which an old use counts 1/e: long enough to know 896 experts apart, short enough to follow a
// change of subject.
constexpr double kMemory = 256;
// How many outcomes the table must have seen before it is believed as much as the plain rate.
constexpr float kPrior = 32;
// How likely a router chooses an expert twice running, before that is known.
constexpr float kFirstGuessOfReuse = 0.3F;
// Outcomes are halved at this many, so that the table follows too.
constexpr float kMostOutcomes = 1 << 20;
// A prompt needs nearly everything and says nothing about the next token.
constexpr std::size_t kSweepDivisor = 4;
// Rounds through the layers after which the popular set is chosen anew.
constexpr std::uint64_t kRoundsPerChoice = 64;
// Slots that the popular set always leaves to the others: two layers' experts.
constexpr std::size_t kLeastPool = 32;
constexpr double kMostPinnedShare = 0.5;

std::size_t most_popular_of(std::size_t slots, double share) {
  const auto wanted =
      static_cast<std::size_t>(std::clamp(share, 0.0, kMostPinnedShare) * static_cast<double>(slots));
  return std::min(wanted, slots - std::min(slots, kLeastPool));
}

}  // namespace

PopularPolicy::PopularPolicy(const CacheShape& shape, const ExpertUsage& usage, double pinned_share)
    : layers_(shape.layers), most_popular_(most_popular_of(shape.slots, pinned_share)) {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    layer.experts.resize(shape.experts);
    if (usage.rates.empty()) continue;
    layer.visits = static_cast<std::uint64_t>(kMemory);
    for (std::size_t e = 0; e < shape.experts; ++e) {
      layer.experts[e].rate = layer.experts[e].chance = usage.rates[l * shape.experts + e];
    }
  }
  if (!usage.rates.empty()) choose_popular();
}

// Half octaves below 1, roughly: the exponent and the first bit of the fraction.
std::size_t PopularPolicy::rate_bin(float rate) {
  constexpr int kOne = 127 << 1;
  const int code = static_cast<int>(std::bit_cast<std::uint32_t>(rate) >> 22);
  return static_cast<std::size_t>(std::clamp(kOne - code, 0, static_cast<int>(kRates) - 1));
}

float PopularPolicy::chance_of(const History& expert) const {
  const Outcome& outcome = outcomes_[expert.age][rate_bin(expert.rate)];
  return (outcome.used + kPrior * expert.rate) / (outcome.seen + kPrior);
}

void PopularPolicy::learn(Layer& layer, std::span<const std::uint32_t> experts) {
  // In the beginning the mean of all visits, later a decaying one.
  const auto pace = static_cast<float>(1 / std::min(kMemory, static_cast<double>(layer.visits) + 16));
  std::size_t next = 0;
  for (std::uint32_t e = 0; e < layer.experts.size(); ++e) {
    History& expert = layer.experts[e];
    const bool used = next < experts.size() && experts[next] == e;
    next += used;
    Outcome& outcome = outcomes_[expert.age][rate_bin(expert.rate)];
    outcome.seen += 1;
    outcome.used += used;
    if (outcome.seen > kMostOutcomes) outcome = {outcome.seen / 2, outcome.used / 2};
    expert.rate += pace * (static_cast<float>(used) - expert.rate);
    expert.age = used ? 0 : static_cast<std::uint8_t>(std::min<std::size_t>(expert.age + 1u, kAges - 1));
  }
  ++layer.visits;
}

void PopularPolicy::visit(std::uint32_t index, std::span<const std::uint32_t> experts) {
  Layer& layer = layers_[index];
  current_ = index;
  if (experts.size() > std::max<std::size_t>(1, layer.experts.size() / kSweepDivisor)) return;
  learn(layer, experts);
  for (History& expert : layer.experts) expert.chance = chance_of(expert);
  std::ranges::sort(layer.present, [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(layer.experts[a].chance, b) > std::pair(layer.experts[b].chance, a);
  });
  if (++visits_ % (kRoundsPerChoice * layers_.size()) == 0) choose_popular();
}

void PopularPolicy::inserted(ExpertKey key) {
  Layer& layer = layers_[key.layer];
  History& expert = layer.experts[key.expert];
  if (expert.present) return;
  expert.present = true;
  const auto behind = std::ranges::find_if(
      layer.present, [&](std::uint32_t other) { return layer.experts[other].chance < expert.chance; });
  layer.present.insert(behind, key.expert);
}

void PopularPolicy::removed(ExpertKey key) {
  history(key).present = false;
  std::erase(layers_[key.layer].present, key.expert);
}

// Whole rounds through the layers until its chance comes true, less the part of the round that has passed.
double PopularPolicy::tokens_until_use(std::size_t layer, std::uint32_t expert) const {
  const std::size_t ahead = (layer + layers_.size() - current_ - 1) % layers_.size() + 1;
  const double chance = std::max(1e-6, static_cast<double>(layers_[layer].experts[expert].chance));
  return 1 / chance - 1 + static_cast<double>(ahead) / static_cast<double>(layers_.size());
}

std::optional<ExpertKey> PopularPolicy::victim(const MayLeave& may_leave) {
  std::optional<ExpertKey> worst;
  double worst_time = -1;
  for (std::uint32_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    for (auto e = layer.present.rbegin(); e != layer.present.rend(); ++e) {
      const double time = tokens_until_use(l, *e);
      if (time <= worst_time) break;  // those before it are needed sooner
      if (layer.experts[*e].pinned || !may_leave({l, *e})) continue;
      worst = {l, *e}, worst_time = time;
      break;
    }
  }
  return worst;
}

// Of an expert that was used at the last visit.
float PopularPolicy::chance_of_reuse() const {
  Outcome all{kPrior, kPrior * kFirstGuessOfReuse};
  for (const Outcome& outcome : outcomes_[0]) all = {all.seen + outcome.seen, all.used + outcome.used};
  return all.used / all.seen;
}

// The most used. Those of them that are needed less often than whatever was used last do not stay for that:
// with little memory, what was used last is worth more.
void PopularPolicy::choose_popular() {
  std::vector<ExpertKey> keys;
  for (std::uint32_t l = 0; l < layers_.size(); ++l) {
    for (std::uint32_t e = 0; e < layers_[l].experts.size(); ++e) {
      History& expert = layers_[l].experts[e];
      expert.pinned = false;
      if (expert.rate > 0) keys.push_back({l, e});
    }
  }
  const std::size_t count = std::min(most_popular_, keys.size());
  std::ranges::partial_sort(keys, keys.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](ExpertKey a, ExpertKey b) {
                              return std::pair(history(a).rate, b) > std::pair(history(b).rate, a);
                            });
  keys.resize(count);
  const float reuse = chance_of_reuse();
  for (const ExpertKey key : keys) history(key).pinned = history(key).rate >= reuse;
  popular_ = std::move(keys);
}

ExpertUsage PopularPolicy::usage() const {
  ExpertUsage usage{layers_.size(), layers_.empty() ? 0 : layers_[0].experts.size(), {}};
  for (const Layer& layer : layers_) {
    for (const History& expert : layer.experts) usage.rates.push_back(expert.rate);
  }
  return usage;
}

}  // namespace perigee
