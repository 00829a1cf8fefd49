#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "support/expect_error.h"

namespace perigee {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplingOptions greedy() {
  SamplingOptions options;
  options.temperature = 0;
  return options;
}

// Everything off: the plain distribution.
SamplingOptions plain(std::uint64_t seed = 0) {
  SamplingOptions options;
  options.top_p = 1;
  options.seed = seed;
  return options;
}

std::uint32_t chosen(const std::vector<float>& logits, const SamplingOptions& options,
                     const std::vector<std::uint32_t>& generated = {}, std::uint64_t step = 0) {
  return sample(logits, options, generated, step).chosen.id;
}

// The list in sampler.h, done with sorted maps and the C library in double: probability of every id that may
// be chosen.
std::map<std::uint32_t, double> expected_distribution(const std::vector<float>& logits,
                                                      const SamplingOptions& options,
                                                      const std::vector<std::uint32_t>& generated) {
  std::vector<std::pair<double, std::uint32_t>> ranked;  // (-logit, id): the most likely first
  for (std::uint32_t id = 0; id < logits.size(); ++id) {
    double logit = static_cast<double>(logits[id]);
    const auto count = std::count(generated.begin(), generated.end(), id);
    if (count > 0) {
      logit *= logit > 0 ? 1 / options.repetition_penalty : options.repetition_penalty;
      logit -= options.presence_penalty;
      for (auto i = count; i > 0; --i) logit -= options.frequency_penalty;
    }
    const auto bias = options.logit_bias.find(id);
    if (bias != options.logit_bias.end()) logit += bias->second;
    if (std::find(options.banned.begin(), options.banned.end(), id) == options.banned.end())
      ranked.emplace_back(-logit / options.temperature, id);
  }
  std::sort(ranked.begin(), ranked.end());
  if (options.top_k > 0 && options.top_k < ranked.size()) ranked.resize(options.top_k);
  double total = 0;
  for (const auto& [minus, id] : ranked) total += std::exp(-minus);
  std::map<std::uint32_t, double> kept;
  double before = 0, kept_total = 0;
  const double largest = std::exp(-ranked.front().first);
  for (const auto& [minus, id] : ranked) {
    const double weight = std::exp(-minus);
    if (before < options.top_p * total && weight >= options.min_p * largest) {
      kept[id] = weight;
      kept_total += weight;
    }
    before += weight;
  }
  for (auto& [id, weight] : kept) weight /= kept_total;
  return kept;
}

// The id whose interval of the cumulative distribution, by ascending id, holds the number; and how near it is
// to the interval's ends.
std::pair<std::uint32_t, double> expected_draw(const std::map<std::uint32_t, double>& distribution,
                                               double uniform) {
  double reached = 0;
  for (const auto& [id, probability] : distribution) {
    if (reached + probability > uniform)
      return {id, std::min(uniform - reached, reached + probability - uniform)};
    reached += probability;
  }
  return {distribution.rbegin()->first, 0};
}

struct RandomCase {
  std::vector<float> logits;
  SamplingOptions options;
  std::vector<std::uint32_t> generated;
};

RandomCase random_case(std::uint64_t number) {
  std::mt19937_64 random(number);
  const auto uniform = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  RandomCase test;
  test.logits.resize(2 + random() % 60);
  for (float& logit : test.logits) logit = static_cast<float>(uniform(-4, 4));
  const auto any_id = [&] { return static_cast<std::uint32_t>(random() % test.logits.size()); };
  const auto sometimes = [&] { return random() % 2 == 0; };
  SamplingOptions& options = test.options;
  options.seed = number;
  options.temperature = uniform(0.2, 2);
  options.top_p = sometimes() ? uniform(0.05, 1) : 1;
  options.top_k = sometimes() ? static_cast<std::uint32_t>(random() % 70) : 0;
  options.min_p = sometimes() ? uniform(0, 0.5) : 0;
  if (sometimes()) options.repetition_penalty = uniform(0.5, 2);
  if (sometimes()) options.frequency_penalty = uniform(-2, 2);
  if (sometimes()) options.presence_penalty = uniform(-2, 2);
  if (sometimes()) options.logit_bias[any_id()] = uniform(-5, 5);
  if (sometimes()) options.banned.push_back(any_id());
  for (unsigned i = 0; i < 6; ++i) test.generated.push_back(any_id());
  return test;
}

TEST(Sampler, DrawsWhatADoubleComputationOfItsStepsDraws) {
  std::size_t compared = 0;
  for (std::uint64_t number = 0; number < 2000; ++number) {
    const RandomCase test = random_case(number);
    const auto [expected, margin] = expected_draw(
        expected_distribution(test.logits, test.options, test.generated), uniform_number(number, number % 7));
    if (margin < 1e-5) continue;  // e^x in float may put it on either side
    ++compared;
    ASSERT_EQ(chosen(test.logits, test.options, test.generated, number % 7), expected) << "case " << number;
  }
  EXPECT_GT(compared, 1990u);
}

// Expected hashes by python-xxhash: xxh3_64_hexdigest(struct.pack("<QQ", seed, step)).
TEST(Sampler, NumbersAreTheHashOfSeedAndStep) {
  EXPECT_EQ(uniform_number(0, 0), static_cast<double>(0xd0a66a65c7528968u >> 11) * 0x1p-53);
  EXPECT_EQ(uniform_number(42, 7), static_cast<double>(0xb2ae66a26bc6aa3eu >> 11) * 0x1p-53);
}

TEST(Sampler, NumbersAreUniformOverSeedsAndOverSteps) {
  for (const bool over_seeds : {false, true}) {
    std::array<int, 16> counts{};
    double product = 0, previous = 0.5;
    for (std::uint64_t i = 0; i < 16000; ++i) {
      const double number = over_seeds ? uniform_number(i, 3) : uniform_number(3, i);
      ++counts[static_cast<std::size_t>(number * 16)];
      product += (number - 0.5) * (previous - 0.5);
      previous = number;
    }
    double chi_squared = 0;
    for (const int count : counts) chi_squared += (count - 1000) * (count - 1000) / 1000.0;
    EXPECT_LT(chi_squared, 37.7);                     // 15 degrees of freedom, p = 0.001
    EXPECT_LT(std::abs(product / 16000 * 12), 0.03);  // neighbours' correlation
  }
}

TEST(Sampler, TemperatureZeroTakesTheLargestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(chosen({1, 3, 2}, greedy()), 1u);
  EXPECT_EQ(chosen({1, 3, 3, 3}, greedy()), 1u);
  EXPECT_EQ(chosen({-kInfinity, -5, -kInfinity}, greedy()), 1u);
}

TEST(Sampler, GreedyHeedsPenaltiesBiasAndBans) {
  SamplingOptions options = greedy();
  options.presence_penalty = 1.5;
  EXPECT_EQ(chosen({1, 3, 2}, options, {1}), 2u);
  options = greedy();
  options.frequency_penalty = 0.4;
  EXPECT_EQ(chosen({1, 3, 2}, options, {1, 1}), 1u);
  EXPECT_EQ(chosen({1, 3, 2}, options, {1, 1, 1}), 2u);
  options = greedy();
  options.repetition_penalty = 2;
  EXPECT_EQ(chosen({1, 3, 2}, options, {1}), 2u);
  EXPECT_EQ(chosen({-1, -1.5, -4}, options, {0}), 1u);  // a negative logit becomes smaller too
  options = greedy();
  options.logit_bias = {{0, 2.5}};
  EXPECT_EQ(chosen({1, 3, 2}, options), 0u);
  options = greedy();
  options.banned = {1, 2};
  EXPECT_EQ(chosen({1, 3, 2}, options), 0u);
}

TEST(Sampler, TopKAndTopPKeepTheLowerOfEqualIds) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SamplingOptions options = plain(seed);
    options.top_k = 2;
    EXPECT_LE(chosen({1, 1, 1, 1}, options), 1u);
    options = plain(seed);
    options.top_p = 0.5;
    EXPECT_LE(chosen({1, 1, 1, 1}, options), 1u);
  }
}

TEST(Sampler, ATinyTopPLeavesTheMostLikely) {
  SamplingOptions options = plain();
  options.top_p = 1e-9;
  for (options.seed = 0; options.seed < 100; ++options.seed) EXPECT_EQ(chosen({1, 1.1f, 1}, options), 1u);
}

TEST(Sampler, ATinyTemperatureIsGreedyWithoutOverflow) {
  SamplingOptions options = plain();
  options.temperature = 1e-300;
  for (options.seed = 0; options.seed < 100; ++options.seed) EXPECT_EQ(chosen({1, 1.1f, -9}, options), 1u);
}

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  std::array<int, 3> counts{};
  for (std::uint64_t step = 0; step < 8000; ++step) ++counts[chosen(logits, plain(11), {}, step)];
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 160);
  EXPECT_NEAR(counts[2], 5000, 180);
}

TEST(Sampler, LogProbabilitiesAreOfTheUnmodifiedDistribution) {
  SamplingOptions options = greedy();
  options.temperature = 0.3;
  options.logit_bias = {{0, 50}};
  options.banned = {2};
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  const SampledToken token = sample(logits, options, {}, 0, 2);
  EXPECT_EQ(token.chosen.id, 0u);
  EXPECT_NEAR(token.chosen.log_probability, std::log(1.0 / 8), 1e-6);
  ASSERT_EQ(token.top.size(), 2u);
  EXPECT_EQ(token.top[0].id, 2u);
  EXPECT_NEAR(token.top[0].log_probability, std::log(5.0 / 8), 1e-6);
  EXPECT_EQ(token.top[1].id, 1u);
  EXPECT_NEAR(token.top[1].log_probability, std::log(2.0 / 8), 1e-6);
}

TEST(Sampler, TopListsBreakTiesByIdAndEndWithTheVocabulary) {
  const SampledToken token = sample(std::vector<float>{1, 2, 2}, greedy(), {}, 0, 20);
  ASSERT_EQ(token.top.size(), 3u);
  EXPECT_EQ(token.top[0].id, 1u);
  EXPECT_EQ(token.top[1].id, 2u);
  EXPECT_EQ(token.top[2].id, 0u);
}

TEST(Sampler, RefusesBrokenLogits) {
  EXPECT_ERROR(chosen({1, kNan, 3}, greedy()), ErrorCode::kInternal, "token 1");
  EXPECT_ERROR(chosen({kNan, kNan}, plain()), ErrorCode::kInternal, "token 0");
  EXPECT_ERROR(chosen({1, kInfinity}, greedy()), ErrorCode::kInternal, "infinite");
  EXPECT_ERROR(chosen({-kInfinity, -kInfinity}, greedy()), ErrorCode::kInternal, "infinite");
  EXPECT_ERROR(chosen({}, greedy()), ErrorCode::kInternal, "no logits");
}

TEST(Sampler, RefusesIdsThatTheVocabularyDoesNotHave) {
  SamplingOptions options = greedy();
  options.logit_bias = {{3, 1}};
  EXPECT_ERROR(chosen({1, 2, 3}, options), ErrorCode::kUsage, "logit_bias names token 3");
  options = greedy();
  options.banned = {7};
  EXPECT_ERROR(chosen({1, 2, 3}, options), ErrorCode::kUsage, "banned names token 7");
  options.banned = {0, 1, 2};
  EXPECT_ERROR(chosen({1, 2, 3}, options), ErrorCode::kUsage, "no token");
}

TEST(Sampler, RefusesOptionsOutOfRangeByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](const char* name, auto set) {
    SamplingOptions options;
    set(options);
    EXPECT_ERROR(check_sampling(options), ErrorCode::kUsage, name);
  };
  for (const double bad : {-0.1, nan, std::numeric_limits<double>::infinity()})
    refused("temperature", [&](SamplingOptions& o) { o.temperature = bad; });
  for (const double bad : {0.0, -1.0, 1.01, nan})
    refused("top_p", [&](SamplingOptions& o) { o.top_p = bad; });
  for (const double bad : {-0.1, 1.1, nan}) refused("min_p", [&](SamplingOptions& o) { o.min_p = bad; });
  for (const double bad : {-2.1, 2.1, nan}) {
    refused("frequency_penalty", [&](SamplingOptions& o) { o.frequency_penalty = bad; });
    refused("presence_penalty", [&](SamplingOptions& o) { o.presence_penalty = bad; });
  }
  for (const double bad : {0.0, -1.0, nan})
    refused("repetition_penalty", [&](SamplingOptions& o) { o.repetition_penalty = bad; });
  for (const double bad : {-101.0, 101.0, nan})
    refused("logit_bias", [&](SamplingOptions& o) { o.logit_bias[0] = bad; });
  EXPECT_NO_THROW(check_sampling({}));
}

}  // namespace
}  // namespace perigee
