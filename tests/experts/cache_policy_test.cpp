// Policies on small stories whose right ending is known, and on synthetic routing beside the ideal.
#include "experts/cache_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "experts/replay.h"
#include "experts/synthetic_router.h"

namespace perigee {
namespace {

using Ids = std::vector<std::uint32_t>;

bool anybody(ExpertKey) {
  return true;
}

TEST(LruPolicy, LetsTheLeastRecentlyUsedLeave) {
  const auto policy = make_cache_policy(CachePolicyKind::kLru, {2, 8, 4});
  for (std::uint32_t expert = 0; expert < 4; ++expert) policy->inserted({0, expert});
  policy->visit(0, Ids{0, 2});
  EXPECT_EQ(policy->victim(anybody), (ExpertKey{0, 1}));
  EXPECT_EQ(policy->victim([](ExpertKey key) { return key.expert != 1; }), (ExpertKey{0, 3}));
  EXPECT_EQ(policy->victim([](ExpertKey) { return false; }), std::nullopt);
  policy->removed({0, 1});
  policy->removed({0, 3});
  EXPECT_EQ(policy->victim(anybody), (ExpertKey{0, 0}));
}

TEST(LeastStalePolicy, LetsLayersThatWerePassedLeaveBeforeThoseAhead) {
  const auto policy = make_cache_policy(CachePolicyKind::kLeastStale, {4, 8, 4});
  for (std::uint32_t layer = 0; layer < 4; ++layer) policy->inserted({layer, 1});
  policy->visit(1, Ids{1});
  Ids order;
  while (const auto key = policy->victim(anybody)) {
    order.push_back(key->layer);
    policy->removed(*key);
  }
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 3, 2));
}

TEST(PopularPolicy, KeepsWhatIsUsedAgainAndAgain) {
  const auto policy = make_cache_policy(CachePolicyKind::kPopular, {1, 32, 3});
  for (std::uint32_t token = 0; token < 40; ++token) policy->visit(0, Ids{3, 10 + token % 10});
  policy->inserted({0, 3});
  policy->inserted({0, 19});
  policy->inserted({0, 30});  // never used
  EXPECT_EQ(policy->victim(anybody), (ExpertKey{0, 30}));
  policy->removed({0, 30});
  EXPECT_EQ(policy->victim(anybody), (ExpertKey{0, 19}));
}

TEST(PopularPolicy, LearnsThatARouterNeverRepeatsItself) {
  // Every expert is used every fourth token, so the one just used is needed last.
  const auto policy = make_cache_policy(CachePolicyKind::kPopular, {1, 16, 4});
  std::uint32_t token = 0;
  for (; token < 400; ++token) policy->visit(0, Ids{token % 4});
  for (std::uint32_t expert = 0; expert < 4; ++expert) policy->inserted({0, expert});
  policy->visit(0, Ids{0});
  EXPECT_NE(policy->victim(anybody), (ExpertKey{0, 1}));  // needed next
}

TEST(PopularPolicy, IsNotImpressedByAPromptThatNeedsEverything) {
  const auto policy = make_cache_policy(CachePolicyKind::kPopular, {1, 8, 4});
  for (int token = 0; token < 20; ++token) policy->visit(0, Ids{5});
  const std::vector<float> before = policy->usage().rates;
  policy->visit(0, Ids{0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(policy->usage().rates, before);
}

TEST(PopularPolicy, PinsThePopularSetOfEarlierRunsAndNeverMoreThanHalf) {
  ExpertUsage usage{2, 40, std::vector<float>(80, 0.6F)};
  usage.rates[40 + 7] = 0.9F;
  const auto policy = make_cache_policy(CachePolicyKind::kPopular, {2, 40, 64}, usage, 1.0);
  EXPECT_EQ(policy->pinned().size(), 32u);
  EXPECT_EQ(policy->pinned().front(), (ExpertKey{1, 7}));
  EXPECT_TRUE(policy->is_pinned({1, 7}));
  policy->inserted({1, 7});
  EXPECT_EQ(policy->victim(anybody), std::nullopt);
}

TEST(PopularPolicy, PinsNothingThatIsNeededLessOftenThanWhatWasUsedLast) {
  const ExpertUsage usage{1, 128, std::vector<float>(128, 0.1F)};
  const auto policy = make_cache_policy(CachePolicyKind::kPopular, {1, 128, 64}, usage);
  EXPECT_EQ(policy->pinned().size(), 32u);  // worth reading ahead
  EXPECT_FALSE(policy->is_pinned(policy->pinned().front()));
}

TEST(MakeCachePolicy, RefusesUsageOfAnotherShape) {
  EXPECT_THROW(make_cache_policy(CachePolicyKind::kPopular, {2, 8, 4}, {2, 4, std::vector<float>(8)}), Error);
}

Trace trace_of(std::uint64_t layers, const std::vector<Ids>& visits) {
  Trace trace{layers, 8, 100, {}};
  for (std::size_t i = 0; i < visits.size(); ++i)
    trace.visits.push_back({static_cast<std::uint32_t>(i % layers), 1, visits[i], {}});
  return trace;
}

TEST(ReplayBest, ReadsAsLittleAsPossible) {
  // One layer, two slots, 1 2 3 1 2 3: keep 1, let 2 go for 3, and so on; worked out by hand.
  const Trace trace = trace_of(1, {{1}, {2}, {3}, {1}, {2}, {3}});
  const ReplayResult best = replay_best(trace, 2);
  EXPECT_EQ(best.asked, 6u);
  EXPECT_EQ(best.reads_demand, 4u);
  EXPECT_EQ(best.tokens, 6u);
  ReplayOptions lru;
  lru.policy = CachePolicyKind::kLru;
  lru.slots = 2;
  EXPECT_EQ(replay(trace, lru).reads_demand, 6u);
}

TEST(Replay, ReadsEachExpertOnceIfAllFit) {
  SyntheticRouting routing{.layers = 5, .experts = 32, .top_k = 4, .tokens = 50};
  const Trace trace = make_synthetic_trace(routing);
  for (const auto policy : {CachePolicyKind::kPopular, CachePolicyKind::kLeastStale, CachePolicyKind::kLru}) {
    ReplayOptions options;
    options.policy = policy;
    options.slots = 5 * 32;
    EXPECT_EQ(replay(trace, options).reads_demand, replay_best(trace, 5 * 32).reads_demand);
  }
}

TEST(Replay, NoPolicyBeatsTheIdealAndPopularBeatsTheOthers) {
  SyntheticRouting routing{.layers = 9, .experts = 96, .top_k = 8, .tokens = 400};
  routing.skew = 0.8;
  const Trace trace = make_synthetic_trace(routing);
  for (const std::size_t slots : {48, 150, 400}) {
    const double ideal = replay_best(trace, slots).hit_rate();
    const auto rate = [&](CachePolicyKind policy) {
      ReplayOptions options;
      options.policy = policy;
      options.slots = slots;
      return replay(trace, options).hit_rate();
    };
    const double popular = rate(CachePolicyKind::kPopular), lru = rate(CachePolicyKind::kLru),
                 stale = rate(CachePolicyKind::kLeastStale);
    EXPECT_LE(std::max({popular, lru, stale}), ideal) << slots;
    EXPECT_GT(popular, lru) << slots;
    EXPECT_GT(popular, stale) << slots;
  }
}

TEST(Replay, ReadingAheadTurnsMissesIntoHits) {
  SyntheticRouting routing{.layers = 9, .experts = 96, .top_k = 8, .tokens = 100};
  const Trace trace = make_synthetic_trace(routing);
  ReplayOptions options;
  options.slots = 100;
  const ReplayResult without = replay(trace, options);
  options.prefetch = true;
  const ReplayResult with = replay(trace, options);
  EXPECT_EQ(without.hits_prefetch, 0u);
  EXPECT_GT(with.hit_rate(), without.hit_rate() + 0.2);
  EXPECT_GE(with.reads_demand + with.reads_ahead, without.reads_demand);
}

TEST(KnowingOdds, KeepsTheSlotsShareWhereAllAreEquallyLikely) {
  SyntheticRouting routing{.layers = 9, .experts = 96, .top_k = 8, .tokens = 600};
  routing.skew = routing.overlap = 0;
  const Trace trace = make_synthetic_trace(routing);
  for (const std::size_t slots : {80, 400}) {  // of 8 layers
    EXPECT_NEAR(replay_knowing_odds(routing, trace, slots).hit_rate(), static_cast<double>(slots) / (8 * 96),
                0.01);
  }
}

TEST(KnowingOdds, IsAtLeastWhatRepetitionGivesToThoseWhoKeepTheLastChoice) {
  SyntheticRouting routing{.layers = 9, .experts = 896, .top_k = 8, .tokens = 400};
  routing.skew = 0;
  const Trace trace = make_synthetic_trace(routing);
  const ReplayResult result = replay_knowing_odds(routing, trace, 8 * 8, 8 * 100);
  EXPECT_NEAR(result.hit_rate(), routing.overlap, 0.02);
  EXPECT_EQ(result.tokens, 300u);
  EXPECT_EQ(result.asked, 300u * 8 * 8);
}

TEST(KnowingOdds, IsAboveEveryPolicyThatKnowsThePastOnly) {
  SyntheticRouting routing{.layers = 9, .experts = 96, .top_k = 8, .tokens = 400};
  routing.skew = 0.8;
  const Trace trace = make_synthetic_trace(routing);
  for (const std::size_t slots : {48, 150, 400}) {
    ReplayOptions options;
    options.slots = slots;
    EXPECT_GT(replay_knowing_odds(routing, trace, slots).hit_rate(), replay(trace, options).hit_rate())
        << slots;
  }
}

TEST(SyntheticTrace, HasTheStatisticsItStates) {
  SyntheticRouting routing{.layers = 4, .tokens = 600};
  const TraceStatistics s = measure_trace(make_synthetic_trace(routing));
  EXPECT_NEAR(s.overlap, 0.29, 0.02);
  EXPECT_NEAR(s.recall, 0.59, 0.02);
  EXPECT_GT(s.popular_share, 0.2);
  routing.skew = 0;
  EXPECT_LT(measure_trace(make_synthetic_trace(routing)).popular_share, 0.2);
}

}  // namespace
}  // namespace perigee
