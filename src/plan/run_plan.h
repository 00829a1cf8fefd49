// What running a model on a machine will be like, before anything is loaded: what lies where, how many tokens
// a second, how long until the first, and what more memory, another drive or fewer bits would change. Pure
// arithmetic over sizes (model_sizes.h), rates (bench/machine_rates.h) and a share of experts that memory
// will have (hit_model.h); `perigee bench stream` holds the same arithmetic against the clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/machine_rates.h"
#include "experts/memory_plan.h"
#include "experts/step_model.h"
#include "plan/hit_model.h"
#include "plan/model_sizes.h"

namespace perigee {

struct RunRates {
  double memory_bytes_per_second = 0;
  ProductRates plain;     // BF16 and FP8 weights
  ProductRates four_bit;  // experts, and NVFP4 planes
  DriveModel drive;
};
RunRates run_rates(const MachineRates& rates, unsigned drives);

struct RunRequest {
  std::uint64_t ram_bytes = 0;  // that the model may use
  ExpertHome home = ExpertHome::kAuto;
  std::uint64_t sequences = 1;
  std::uint64_t context = 8192;  // tokens that a sequence may have
  std::uint64_t prompt = 1000;   // tokens that come before the first new one
};

struct RunSpeed {
  double hit_rate = 1;           // of a token's experts, those in memory
  double read_bytes = 0;         // from drives, a token
  double trunk_seconds = 0;      // of a token: multiplying with the trunk, attention
  double experts_seconds = 0;    // the longer of reading and multiplying
  double prompt_seconds = 0;     // until the first token
  double prompt_read_bytes = 0;  // from drives

  double token_seconds() const { return trunk_seconds + experts_seconds; }
};

struct RunOutlook {
  std::string name;                  // "as it is", "one more drive"
  std::uint64_t ram_bytes = 0;       // that it was made for
  std::optional<MemoryPlan> memory;  // nothing: refused
  std::string refusal;               // the sentence that loading would end with
  RunSpeed speed;
};

struct RunPlan {
  RunOutlook now;
  std::uint64_t least_ram_bytes = 0;     // below it the model is refused
  std::uint64_t resident_ram_bytes = 0;  // from it on all experts stay in memory
  std::vector<RunOutlook> changes;
  double tokens_a_second_per_gigabyte = 0;  // what one more gigabyte of memory gives, near what there is
};

RunOutlook look_ahead(const std::string& name, const ModelSizes& sizes, const RunRequest& request,
                      const RunRates& rates, const HitModel& hits);

RunPlan plan_run(const ModelSizes& sizes, const RunRequest& request, const RunRates& rates,
                 const HitModel& hits);

}  // namespace perigee
