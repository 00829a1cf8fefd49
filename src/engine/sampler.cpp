#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "numerics/elementary.h"

namespace perigee {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();
constexpr double kLargestPenalty = 2;    // OpenAI's range for frequency and presence
constexpr double kLargestBias = 100;     // and for logit_bias
constexpr double kLeastExponent = -200;  // e to it is zero in float

struct Candidate {
  std::uint32_t id = 0;
  double logit = 0;
  double weight = 0;  // in proportion to its probability
};

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

bool less_likely(const Candidate& a, const Candidate& b) {
  return more_likely(b, a);
}

void check_range(const char* option, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    fail(ErrorCode::kUsage, "{} is {}, but must be from {} to {}", option, value, least, most);
  }
}

// The largest logit.
float checked_largest(std::span<const float> logits) {
  if (logits.empty()) fail(ErrorCode::kInternal, "there are no logits to sample from");
  float largest = logits[0];
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != logits[id]) {
      fail(ErrorCode::kInternal, "the logit of token {} is not a number; the sequence's state is broken", id);
    }
    largest = std::max(largest, logits[id]);
  }
  if (std::isinf(largest))
    fail(ErrorCode::kInternal, "the largest logit is infinite; the sequence's state is broken");
  return largest;
}

double& logit_of(std::vector<double>& logits, std::uint32_t id, const char* option) {
  if (id >= logits.size()) {
    fail(ErrorCode::kUsage, "{} names token {}, but the vocabulary has {}", option, id, logits.size());
  }
  return logits[id];
}

void apply_penalties(const SamplingOptions& options, std::span<const std::uint32_t> generated,
                     std::vector<double>& logits) {
  if (options.repetition_penalty == 1 && options.frequency_penalty == 0 && options.presence_penalty == 0)
    return;
  std::unordered_map<std::uint32_t, double> occurrences;
  for (const std::uint32_t id : generated) occurrences[id] += 1;
  for (const auto& [id, count] : occurrences) {
    double& logit = logit_of(logits, id, "the text so far");
    logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
    logit -= options.frequency_penalty * count + options.presence_penalty;
  }
}

void apply_filter(const TokenFilter& filter, std::span<const std::uint32_t> generated,
                  std::vector<double>& logits) {
  if (!filter) return;
  std::vector<std::uint64_t> allowed((logits.size() + 63) / 64, 0);
  filter(generated, allowed);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if ((allowed[id / 64] >> (id % 64) & 1) == 0) logits[id] = kExcluded;
  }
}

std::vector<double> modified_logits(std::span<const float> logits, const SamplingOptions& options,
                                    std::span<const std::uint32_t> generated) {
  std::vector<double> modified(logits.begin(), logits.end());
  apply_penalties(options, generated, modified);
  for (const auto& [id, bias] : options.logit_bias) logit_of(modified, id, "logit_bias") += bias;
  for (const std::uint32_t id : options.banned) logit_of(modified, id, "banned") = kExcluded;
  apply_filter(options.filter, generated, modified);
  return modified;
}

// Those that may be chosen, by ascending id.
std::vector<Candidate> candidates_of(const std::vector<double>& logits) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != kExcluded) candidates.push_back({static_cast<std::uint32_t>(id), logits[id], 0});
  }
  if (candidates.empty())
    fail(ErrorCode::kUsage, "banned ids and the filter leave no token that could be chosen");
  return candidates;
}

void weigh(std::vector<Candidate>& candidates, double temperature) {
  const double largest = std::max_element(candidates.begin(), candidates.end(), less_likely)->logit;
  for (Candidate& candidate : candidates) {
    const double exponent = std::max((candidate.logit - largest) / temperature, kLeastExponent);
    candidate.weight = static_cast<double>(exact_exp(static_cast<float>(exponent)));
  }
}

void keep_top_k(std::vector<Candidate>& candidates, std::size_t top_k) {
  if (top_k == 0 || top_k >= candidates.size()) return;
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::nth_element(candidates.begin(), end, candidates.end(), more_likely);
  candidates.erase(end, candidates.end());
}

double total_weight(const std::vector<Candidate>& candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& candidate) { return sum + candidate.weight; });
}

bool lower_id(const Candidate& a, const Candidate& b) {
  return a.id < b.id;
}

// The most likely ones leave a heap, because a handful is enough as a rule and a vocabulary is large.
void keep_top_p(std::vector<Candidate>& candidates, double top_p) {
  if (top_p >= 1) return;
  std::sort(candidates.begin(), candidates.end(), lower_id);  // total_weight() adds in this order
  const double wanted = top_p * total_weight(candidates);
  std::make_heap(candidates.begin(), candidates.end(), less_likely);
  auto heap_end = candidates.end();
  double reached = 0;
  while (heap_end != candidates.begin() && reached < wanted) {
    std::pop_heap(candidates.begin(), heap_end, less_likely);
    --heap_end;
    reached += heap_end->weight;
  }
  candidates.erase(candidates.begin(), heap_end);
}

void keep_min_p(std::vector<Candidate>& candidates, double min_p) {
  const double largest = std::max_element(candidates.begin(), candidates.end(), less_likely)->weight;
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.weight < min_p * largest; });
}

std::uint32_t draw(std::vector<Candidate>& candidates, double uniform) {
  std::sort(candidates.begin(), candidates.end(), lower_id);
  const double wanted = uniform * total_weight(candidates);
  double reached = 0;
  for (const Candidate& candidate : candidates) {
    reached += candidate.weight;
    if (reached > wanted) return candidate.id;
  }
  return candidates.back().id;
}

std::uint32_t choose(std::vector<Candidate> candidates, const SamplingOptions& options, std::uint64_t step) {
  if (options.temperature == 0)
    return std::max_element(candidates.begin(), candidates.end(), less_likely)->id;
  weigh(candidates, options.temperature);
  keep_top_k(candidates, options.top_k);
  keep_top_p(candidates, options.top_p);
  keep_min_p(candidates, options.min_p);
  return draw(candidates, uniform_number(options.seed, step));
}

std::vector<std::uint32_t> most_likely(std::span<const float> logits, std::size_t count) {
  if (count == 0) return {};
  std::vector<std::uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](std::uint32_t a, std::uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  ids.erase(end, ids.end());
  return ids;
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  constexpr double kAny = std::numeric_limits<double>::max();
  check_range("temperature", options.temperature, 0, kAny);
  check_range("min_p", options.min_p, 0, 1);
  check_range("frequency_penalty", options.frequency_penalty, -kLargestPenalty, kLargestPenalty);
  check_range("presence_penalty", options.presence_penalty, -kLargestPenalty, kLargestPenalty);
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail(ErrorCode::kUsage, "top_p is {}, but must be above 0 and at most 1", options.top_p);
  if (!(options.repetition_penalty > 0 && options.repetition_penalty <= kAny))
    fail(ErrorCode::kUsage, "repetition_penalty is {}, but must be above 0", options.repetition_penalty);
  for (const auto& [id, bias] : options.logit_bias)
    check_range("logit_bias", bias, -kLargestBias, kLargestBias);
}

double uniform_number(std::uint64_t seed, std::uint64_t step) {
  std::array<std::byte, 16> bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(seed >> (8 * i));
    bytes[8 + i] = static_cast<std::byte>(step >> (8 * i));
  }
  return static_cast<double>(xxh3_64(bytes) >> 11) * 0x1p-53;
}

SampledToken sample(std::span<const float> logits, const SamplingOptions& options,
                    std::span<const std::uint32_t> generated, std::uint64_t step, std::size_t top) {
  const float largest = checked_largest(logits);
  double total = 0;
  for (const float logit : logits) total += static_cast<double>(exact_exp(logit - largest));
  const float log_total = exact_log(static_cast<float>(total));
  const auto probability = [&](std::uint32_t id) {
    return TokenProbability{id, logits[id] - largest - log_total};
  };
  SampledToken token;
  token.chosen =
      probability(choose(candidates_of(modified_logits(logits, options, generated)), options, step));
  for (const std::uint32_t id : most_likely(logits, top)) token.top.push_back(probability(id));
  return token;
}

}  // namespace perigee
