// Plans against sums that are made by hand: what lies where, how long a token takes, what a change gives.
#include "plan/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"

namespace perigee {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMega = 1'000'000;

// 100 MB of trunk, half of it a plane; 4 layers of 8 experts of 10 MB, of which a token takes 2.
ModelSizes small_model() {
  ModelSizes sizes;
  TrunkPart plane, rest;
  plane.name = "attention";
  plane.plane = Plane::kAttention;
  plane.bytes = 50 * kMega;
  plane.bytes_as = {50 * kMega, 25 * kMega, 15 * kMega};
  plane.four_bit_bytes_as = {0, 0, 15 * kMega};
  plane.weights = 25e6;
  rest.name = "others";
  rest.bytes = 50 * kMega;
  rest.bytes_as = {50 * kMega, 50 * kMega, 50 * kMega};
  rest.weights = 25e6;
  sizes.trunk = {plane, rest};
  sizes.moe_layers = 4;
  sizes.experts = 8;
  sizes.top_k = 2;
  sizes.expert_bytes = sizes.slot_bytes = 10 * kMega;
  sizes.expert_weights = 20e6;
  sizes.cache_bytes_a_token = 1000;
  sizes.activations_a_token = 1000;
  return sizes;
}

// Memory gives 1 GB/s, the drive 100 MB/s with any number of reads; instructions are never the limit.
RunRates simple_rates() {
  const ProductRates products = {1e9, 1e15};
  return {1e9, products, products, DriveModel::through(std::vector<DriveModel::Point>{{1, 1e8}}, 4)};
}

RunRequest request_with(std::uint64_t ram) {
  RunRequest request;
  request.ram_bytes = ram;
  request.context = 1000;
  request.prompt = 16;
  return request;
}

// Without statistics every expert is as likely: small_model() has too few to draw routing for.
HitModel even(const ModelSizes& sizes) {
  return HitModel::assumed(sizes);
}

TEST(HitModel, WithTooFewExpertsToDrawEveryOneIsAsLikely) {
  ModelSizes sizes = small_model();
  sizes.top_k = 4;
  EXPECT_DOUBLE_EQ(even(sizes).hit_rate(8), 0.25);
  EXPECT_DOUBLE_EQ(even(sizes).hit_rate(32), 1);
  EXPECT_DOUBLE_EQ(even(sizes).hit_rate(0), 0);
}

TEST(HitModel, MoreMemoryHoldsMoreOfDrawnRouting) {
  ModelSizes sizes = small_model();
  sizes.moe_layers = 12;
  sizes.experts = 64;
  sizes.top_k = 4;
  const HitModel hits = HitModel::assumed(sizes);
  EXPECT_THAT(hits.assumption(), HasSubstr("ASSUMED"));
  double last = 0;
  for (const std::uint64_t slots : {40, 150, 400, 700}) {
    EXPECT_GT(hits.hit_rate(slots), last) << slots;
    last = hits.hit_rate(slots);
  }
  EXPECT_LT(last, 1);
  EXPECT_DOUBLE_EQ(hits.hit_rate(12 * 64), 1);
}

TEST(HitModel, ATraceMustBeOfTheModel) {
  Trace trace{
      5, 8, 10 * kMega, {{1, 1, {0, 1}, {}}, {2, 1, {0, 1}, {}}, {3, 1, {0, 1}, {}}, {4, 1, {0, 1}, {}}}};
  for (int i = 0; i < 9; ++i) {
    for (std::size_t v = 0; v < 4; ++v) trace.visits.push_back(trace.visits[v]);
  }
  const HitModel hits = HitModel::of_trace(trace, "a.trace", small_model());
  EXPECT_DOUBLE_EQ(hits.hit_rate(8), 1) << "always the same two of each layer";
  ModelSizes other = small_model();
  other.experts = 16;
  EXPECT_ERROR(HitModel::of_trace(trace, "a.trace", other), ErrorCode::kMismatch, "a.trace");
}

TEST(RunPlan, InMemoryATokenTakesTheReadingOfItsWeights) {
  const ModelSizes sizes = small_model();
  const RunOutlook outlook = look_ahead("", sizes, request_with(1000 * kMega), simple_rates(), even(sizes));
  ASSERT_TRUE(outlook.memory);
  EXPECT_TRUE(outlook.memory->resident);
  EXPECT_EQ(outlook.memory->trunk, 100 * kMega);
  EXPECT_EQ(outlook.memory->states, kMega);
  EXPECT_EQ(outlook.memory->experts, 320 * kMega);
  EXPECT_DOUBLE_EQ(outlook.speed.hit_rate, 1);
  EXPECT_DOUBLE_EQ(outlook.speed.read_bytes, 0);
  EXPECT_NEAR(outlook.speed.trunk_seconds, 0.1, 1e-6);
  EXPECT_NEAR(outlook.speed.experts_seconds, 4 * 2 * 0.01, 1e-9);
}

TEST(RunPlan, StreamedATokenTakesTheReadingOfWhatIsNotThere) {
  ModelSizes sizes = small_model();
  sizes.top_k = 4;  // even hit rates
  // 100 of trunk, 1 of states, 0.016 or more of activations: 16 experts of 32 fit into 270.
  const RunOutlook outlook = look_ahead("", sizes, request_with(270 * kMega), simple_rates(), even(sizes));
  ASSERT_TRUE(outlook.memory);
  EXPECT_FALSE(outlook.memory->resident);
  EXPECT_EQ(outlook.memory->slots, 16U);
  EXPECT_DOUBLE_EQ(outlook.speed.hit_rate, 0.5);
  EXPECT_DOUBLE_EQ(outlook.speed.read_bytes, 4 * 2 * 10e6);
  // In 4 layers 2 reads on average of 0.1 s each, then the last is multiplied with for 0.01 s; one layer in
  // 16 misses nothing and multiplies for 0.04 s.
  EXPECT_NEAR(outlook.speed.experts_seconds, 4 * (0.2 + 0.01 * 15 / 16 + 0.04 / 16), 1e-9);
}

TEST(RunPlan, APromptReadsEachExpertOnce) {
  ModelSizes sizes = small_model();
  sizes.top_k = 4;
  const RunOutlook outlook = look_ahead("", sizes, request_with(270 * kMega), simple_rates(), even(sizes));
  // 16 tokens of 4 choices of 8 use all 8 but for 0.5^16 of them; half are there.
  EXPECT_NEAR(outlook.speed.prompt_read_bytes, 4 * 4 * 10e6, 1e4);
  // A layer in 256 misses none of its 8.
  EXPECT_NEAR(outlook.speed.prompt_seconds, 0.1 + 4 * (0.4 + (255 * 0.01 + 8 * 0.01) / 256), 1e-4);
}

TEST(RunPlan, RefusesWhatDoesNotFitInTheWordsOfTheLoader) {
  const ModelSizes sizes = small_model();
  const RunPlan plan = plan_run(sizes, request_with(90 * kMega), simple_rates(), even(sizes));
  EXPECT_FALSE(plan.now.memory);
  EXPECT_THAT(plan.now.refusal, HasSubstr("90.0 MB may be used"));
  // Trunk, states, and one expert of the seven eighths that activations leave.
  EXPECT_NEAR(static_cast<double>(plan.least_ram_bytes), 101e6 + 10e6 * 8 / 7, 1000);
  EXPECT_NEAR(static_cast<double>(plan.resident_ram_bytes), 421.016e6, 1);
}

TEST(RunPlan, SaysWhatChangesWouldGive) {
  const ModelSizes sizes = small_model();
  const RunPlan plan = plan_run(sizes, request_with(200 * kMega), simple_rates(), even(sizes));
  ASSERT_TRUE(plan.now.memory);
  EXPECT_FALSE(plan.now.memory->resident);
  const auto named = [&](const std::string& name) {
    for (const RunOutlook& change : plan.changes) {
      if (change.name == name) return change;
    }
    ADD_FAILURE() << name;
    return RunOutlook{};
  };
  EXPECT_GT(plan.tokens_a_second_per_gigabyte, 0);
  EXPECT_LT(named("one more drive").speed.experts_seconds, plan.now.speed.experts_seconds);
  EXPECT_EQ(named("all planes fp8").memory->trunk, 75 * kMega);
  EXPECT_EQ(named("all planes nvfp4").memory->trunk, 65 * kMega);
  EXPECT_GT(named("all planes nvfp4").memory->slots, plan.now.memory->slots);
  EXPECT_NEAR(named("all planes nvfp4").speed.trunk_seconds, 0.065, 1e-6);
  EXPECT_TRUE(named("all experts in memory").memory->resident);
}

TEST(RunRates, TakeTheDriveAsItWasMeasured) {
  MachineRates machine;
  machine.memory_bytes_per_second = 5;
  machine.drive.depths = {{1, 100, 0}, {2, 200, 0}, {4, 300, 0}};
  const RunRates rates = run_rates(machine, 3);
  EXPECT_EQ(rates.drive.bytes_per_second, (std::vector<double>{100, 200, 250, 300}));
  EXPECT_EQ(rates.drive.drives, 3);
}

}  // namespace
}  // namespace perigee
