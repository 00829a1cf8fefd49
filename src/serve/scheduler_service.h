// The engine as the dialects see it: a scheduler, and what every reply of this model has in common.
#pragma once

#include <vector>

#include "engine/prefix_cache.h"
#include "engine/scheduler.h"
#include "serve/generation_service.h"
#include "text/tokenizer.h"

namespace perigee {

class SchedulerService final : public GenerationService {
 public:
  // Keeps references; `prefixes` may be null. `model_ids`: how many ids the model knows.
  SchedulerService(Scheduler& scheduler, const PrefixCache* prefixes, const Tokenizer& tokenizer,
                   std::size_t model_ids);

  std::variant<JobId, Refusal> submit(Job job) override;
  void cancel(JobId id) override;
  ServiceState state() const override;

 private:
  Scheduler& scheduler_;
  const PrefixCache* prefixes_;
  std::vector<std::uint32_t> end_ids_;
  std::vector<std::uint32_t> banned_;
};

}  // namespace perigee
