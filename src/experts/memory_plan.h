// How a given memory is divided between the trunk, the states of sequences, a step's activations and the
// experts. The trunk comes first: it is read by every token. A plan that does not fit is refused with its
// numbers, because a machine that swaps weights is slower than one that streams them. Pure arithmetic: who
// knows the sizes gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace perigee {

enum class ExpertHome {
  kAuto,      // resident if everything fits, else streamed
  kResident,  // all experts in memory
  kStreamed,  // from their files, through as many slots as there is memory for
};

struct MemoryNeeds {
  std::uint64_t trunk = 0;                // bytes of all weights but the routed experts
  std::uint64_t states = 0;               // of the sequences that are to run at a time
  std::uint64_t activations_a_token = 0;  // while a step runs
  std::uint64_t experts = 0;              // of all routed experts
  std::uint64_t expert_count = 0;         // in all layers
  std::uint64_t slot = 0;                 // for one expert that is streamed
};

struct MemoryPlan {
  bool resident = true;
  std::uint64_t available = 0;  // bytes that the plan was made for
  std::uint64_t trunk = 0, states = 0, activations = 0, experts = 0;
  std::size_t slots = 0;         // experts in memory, if streamed
  std::size_t prompt_chunk = 0;  // most tokens of a prompt in a step

  std::uint64_t total() const { return trunk + states + activations + experts; }
};

// Whether the plan will have all experts in memory, which does not depend on the size of a slot.
bool is_resident(const MemoryNeeds& needs, std::uint64_t available, ExpertHome home);

// kNoSpace with the bytes that are needed and those that are there.
MemoryPlan plan_memory(const MemoryNeeds& needs, std::uint64_t available, ExpertHome home);

// "trunk 5.1 GB, states 0.4 GB, …": what plans and refusals say.
std::string describe(const MemoryPlan& plan);

}  // namespace perigee
