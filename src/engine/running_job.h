// A job between its admission and its end, as the scheduler's thread keeps it; nobody else touches it but for
// the restorer, which reads the sequence's request.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "engine/job.h"

namespace perigee {

struct RunningJob {
  using Clock = std::chrono::steady_clock;

  JobId id = 0;
  std::uint64_t bytes = 0;
  std::string client;
  int priority = 0;
  std::shared_ptr<JobListener> listener;
  bool snapshot_end = false;
  std::shared_ptr<Sequence> sequence;  // null if it could not be made
  bool restoring = false;              // takes no part in steps yet
  std::vector<std::size_t> cuts;       // prompt positions to keep, the next one last
  JobSummary summary;
  Clock::time_point submitted, started, first_token, last_token;
  // Of the step that has just run.
  bool was_in_prompt = false;
  std::size_t computed_before = 0;
  std::size_t generated_before = 0;

  bool ended() const { return !sequence || sequence->finished(); }
  bool has_new_token() const { return sequence->generated().size() > generated_before; }

  // Prompt tokens up to the next place where a step must end.
  std::size_t readable_tokens() const {
    const std::size_t end = cuts.empty() ? sequence->request().prompt.size() : cuts.back();
    return end - sequence->computed();
  }

  void stop() {
    if (!ended()) sequence->stop();
  }

  void fail_with_current_exception() {
    if (!summary.failure) summary.failure = std::current_exception();
    stop();
  }
};

}  // namespace perigee
