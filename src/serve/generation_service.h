// What the dialects need of an engine. The real one stands on the scheduler (engine/scheduler.h), whose jobs
// and listeners are used as they are; tests put a scripted model in its place.
#pragma once

#include <cstdint>
#include <variant>

#include "engine/job.h"
#include "engine/prefix_cache.h"
#include "engine/scheduler.h"

namespace perigee {

struct ServiceState {
  SchedulerStatistics scheduler;
  PrefixCacheStatistics prefixes;
};

// All methods may be called from any thread, also from inside a JobListener. A listener is called as job.h
// says: one call at a time, perhaps before submit() has returned, and on_finished() last and exactly once.
class GenerationService {
 public:
  virtual ~GenerationService() = default;

  // The job's end_ids and banned ids are the service's business: it knows the model. kUsage naming what is
  // wrong with the request.
  virtual std::variant<JobId, Refusal> submit(Job job) = 0;
  virtual void cancel(JobId id) = 0;
  virtual ServiceState state() const = 0;
};

}  // namespace perigee
