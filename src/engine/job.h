// What a client of the scheduler hands in and hears back. Deliberately knows ids only: texts, stop strings
// and dialects are the business of whoever listens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace perigee {

using JobId = std::uint64_t;

// How a job went; complete when on_finished() is called.
struct JobSummary {
  GenerationEnd end = GenerationEnd::kStopped;
  bool cancelled = false;      // by cancel(), a deadline of the caller or the scheduler's end
  std::exception_ptr failure;  // end == kFailed: what went wrong in this job alone or in a whole step
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // of the prompt, taken from a snapshot instead of being computed
  std::size_t generated_tokens = 0;
  double waiting_seconds = 0;     // from submit() to its first step
  double prompt_seconds = 0;      // from its first step to its first token
  double generation_seconds = 0;  // from its first token to its last
};

// Called on the scheduler's thread, never two calls at once, and never while the scheduler holds a lock:
// submit() and cancel() may be called from inside. Everybody's next token waits for the return, so a listener
// hands its news on and does no slow work. One that throws ends its own job with that failure.
class JobListener {
 public:
  virtual ~JobListener() = default;

  // The job has left the queue; `cached` tokens of its prompt need not be computed.
  virtual void on_started(std::size_t cached) { static_cast<void>(cached); }

  // `done` of `total` prompt tokens are known to the model; after every step that moved the prompt on.
  virtual void on_prompt(std::size_t done, std::size_t total) {
    static_cast<void>(done);
    static_cast<void>(total);
  }

  // Another token, the end token included. False: enough; the job ends with kStopped unless it is over
  // anyway.
  virtual bool on_token(const SampledToken& token) = 0;

  // Exactly once for every job that was accepted, and the last call of all.
  virtual void on_finished(const JobSummary& summary) = 0;
};

struct Job {
  // max_tokens bounds the memory that is set aside: 0 sets aside a whole context.
  GenerationRequest request;
  std::string client;  // between clients turns are taken, however many jobs each of them has
  int priority = 0;    // of waiting jobs those with the lowest come first
  // Prefixes of the prompt whose state is worth keeping: the end of the system prompt, of every turn. Any
  // order; those that do not lie inside the prompt are ignored. Of no use without a PrefixCache.
  std::vector<std::size_t> snapshot_positions;
  bool snapshot_end = false;  // also what the reply left behind, for a prompt that continues it id by id
  std::shared_ptr<JobListener> listener;
};

}  // namespace perigee
