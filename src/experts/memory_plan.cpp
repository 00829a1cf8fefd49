#include "experts/memory_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"

namespace perigee {
namespace {

// Of a prompt while experts are resident: enough for the kernels to be at their best.
constexpr std::size_t kResidentChunk = 256;
// When experts are streamed, a step over twice the tokens reads hardly more experts; beyond this it reads all
// of them anyway.
constexpr std::size_t kStreamedChunk = 4096;
constexpr std::size_t kLeastChunk = 16;
// The part of the memory left by trunk and states that activations may take from experts.
constexpr std::uint64_t kActivationDivisor = 8;

[[noreturn]] void refuse(const MemoryPlan& least, const std::string& advice) {
  fail(ErrorCode::kNoSpace, "the model needs {} of memory ({}) and {} may be used; {}",
       format_bytes(least.total()), describe(least), format_bytes(least.available), advice);
}

MemoryPlan resident_plan(const MemoryNeeds& needs, MemoryPlan plan) {
  plan.resident = true;
  plan.experts = needs.experts;
  plan.slots = needs.expert_count;
  const std::uint64_t fixed = plan.total();
  const std::uint64_t left = plan.available - std::min(plan.available, fixed);
  const auto chunk = std::max<std::uint64_t>(1, needs.activations_a_token);
  plan.prompt_chunk = std::clamp<std::size_t>(left / chunk, kLeastChunk, kResidentChunk);
  plan.activations = plan.prompt_chunk * needs.activations_a_token;
  return plan;
}

MemoryPlan streamed_plan(const MemoryNeeds& needs, MemoryPlan plan) {
  plan.resident = false;
  const std::uint64_t left = plan.available - std::min(plan.available, plan.total());
  const auto token = std::max<std::uint64_t>(1, needs.activations_a_token);
  plan.prompt_chunk = std::clamp<std::size_t>(left / kActivationDivisor / token, kLeastChunk, kStreamedChunk);
  plan.activations = plan.prompt_chunk * needs.activations_a_token;
  const std::uint64_t for_slots = left - std::min(left, plan.activations);
  plan.slots =
      std::clamp<std::size_t>(for_slots / needs.slot, 1, std::max<std::uint64_t>(1, needs.expert_count));
  plan.experts = plan.slots * needs.slot;
  return plan;
}

MemoryPlan without_experts(const MemoryNeeds& needs, std::uint64_t available) {
  MemoryPlan plan;
  plan.available = available;
  plan.trunk = needs.trunk;
  plan.states = needs.states;
  return plan;
}

}  // namespace

bool is_resident(const MemoryNeeds& needs, std::uint64_t available, ExpertHome home) {
  if (home != ExpertHome::kAuto) return home == ExpertHome::kResident;
  return resident_plan(needs, without_experts(needs, available)).total() <= available;
}

MemoryPlan plan_memory(const MemoryNeeds& needs, std::uint64_t available, ExpertHome home) {
  const bool resident = is_resident(needs, available, home);
  const MemoryPlan base = without_experts(needs, available);
  const MemoryPlan plan = resident ? resident_plan(needs, base) : streamed_plan(needs, base);
  if (plan.total() > available) {
    refuse(plan, resident ? "let experts be streamed with --experts streamed, or give more with --ram"
                          : "give more with --ram, or use a smaller checkpoint");
  }
  return plan;
}

std::string describe(const MemoryPlan& plan) {
  return fmt::format("trunk {}, states {}, activations of {} tokens {}, {} {}", format_bytes(plan.trunk),
                     format_bytes(plan.states), plan.prompt_chunk, format_bytes(plan.activations),
                     plan.resident ? "all experts" : fmt::format("{} experts", plan.slots),
                     format_bytes(plan.experts));
}

}  // namespace perigee
