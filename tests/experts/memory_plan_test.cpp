#include "experts/memory_plan.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace perigee {
namespace {

constexpr std::uint64_t kGiga = 1'000'000'000;

MemoryNeeds needs() {
  MemoryNeeds needs;
  needs.trunk = 10 * kGiga;
  needs.states = kGiga;
  needs.activations_a_token = 1'000'000;
  needs.expert_count = 1000;
  needs.experts = 20 * kGiga;
  needs.slot = 20'000'000;
  return needs;
}

TEST(MemoryPlan, KeepsEverythingInMemoryIfItFits) {
  const MemoryPlan plan = plan_memory(needs(), 40 * kGiga, ExpertHome::kAuto);
  EXPECT_TRUE(plan.resident);
  EXPECT_EQ(plan.slots, 1000u);
  EXPECT_EQ(plan.prompt_chunk, 256u);
  EXPECT_EQ(plan.total(), 31 * kGiga + 256'000'000);
}

TEST(MemoryPlan, StreamsThroughWhatTrunkStatesAndActivationsLeave) {
  const MemoryPlan plan = plan_memory(needs(), 19 * kGiga, ExpertHome::kAuto);
  EXPECT_FALSE(plan.resident);
  // 8 GB are left: an eighth for activations, the rest for slots.
  EXPECT_EQ(plan.prompt_chunk, 1000u);
  EXPECT_EQ(plan.slots, 350u);
  EXPECT_LE(plan.total(), 19 * kGiga);
}

TEST(MemoryPlan, GivesAStreamedPromptTheLargestStepsThatPay) {
  EXPECT_EQ(plan_memory(needs(), 100 * kGiga, ExpertHome::kStreamed).prompt_chunk, 4096u);
  EXPECT_EQ(plan_memory(needs(), 100 * kGiga, ExpertHome::kStreamed).slots, 1000u);
}

TEST(MemoryPlan, RefusesWithNumbersInsteadOfSwapping) {
  EXPECT_ERROR(plan_memory(needs(), 5 * kGiga, ExpertHome::kAuto), ErrorCode::kNoSpace, "trunk 10.0 GB");
  EXPECT_ERROR(plan_memory(needs(), 5 * kGiga, ExpertHome::kStreamed), ErrorCode::kNoSpace,
               "5.00 GB may be used");
  EXPECT_ERROR(plan_memory(needs(), 30 * kGiga, ExpertHome::kResident), ErrorCode::kNoSpace,
               "--experts streamed");
}

}  // namespace
}  // namespace perigee
