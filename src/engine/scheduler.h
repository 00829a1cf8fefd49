// Continuous batching (docs/scheduling.md): one thread that forms steps of Engine out of many jobs. In a step
// every reply moves on by one token and prompts share a budget of tokens, so a long prompt delays nobody's
// next token by more than that. A job is admitted when the memory of its longest possible state is free, so
// no reply dies of memory half-way. What a job generates does not depend on its company (engine.h).
// Deliberately no preemption: who has been admitted stays until it ends or is cancelled.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <variant>
#include <vector>

#include "engine/fair_queue.h"
#include "engine/job.h"
#include "engine/prefix_restorer.h"
#include "engine/rate_meter.h"

namespace perigee {

class PrefixCache;
struct RunningJob;

// Why a job was not accepted. It has not been heard of: on_finished() will not be called.
struct Refusal {
  enum class Reason {
    kQueueFull,  // come back later
    kDraining,   // the scheduler takes no more jobs
    kTooLarge,   // its prompt and max_tokens can never fit into the memory for states
  };
  Reason reason = Reason::kQueueFull;
  double retry_after_seconds = 0;  // kQueueFull: an estimate of when a place will be free, 1 to 600
  std::string sentence;            // says what was refused and what to do
};

struct SchedulerOptions {
  std::size_t most_running = 16;
  std::size_t most_waiting = 64;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  // for the states of all running jobs together
  // Prompt tokens of all jobs together in one step, while some job generates and while none does.
  std::size_t prompt_budget_beside_replies = 64;
  std::size_t prompt_budget_alone = 512;
};

// Of a running job that has not generated anything yet.
struct PromptProgress {
  std::size_t done = 0;  // tokens that are computed or restored
  std::size_t total = 0;
  bool restoring = false;  // the state of a known prefix is being fetched
};

struct SchedulerStatistics {
  std::size_t running = 0;
  std::size_t waiting = 0;
  std::vector<PromptProgress> prompts;  // those that are being read, oldest first
  std::uint64_t reserved_bytes = 0;     // set aside for the longest states of the running jobs
  std::uint64_t memory_bytes = 0;       // of the options
  // Since the scheduler began.
  std::uint64_t steps = 0;
  double model_seconds = 0;         // inside the engine's steps
  double busy_seconds = 0;          // from waking up for work to the end of the turn, steps included
  std::uint64_t prompt_tokens = 0;  // computed
  std::uint64_t cached_tokens = 0;  // taken from snapshots instead
  std::uint64_t generated_tokens = 0;
  std::uint64_t jobs_finished = 0;  // by themselves or their listener
  std::uint64_t jobs_cancelled = 0;
  std::uint64_t jobs_failed = 0;
  std::uint64_t jobs_refused = 0;
  // Over about the last ten seconds.
  double prompt_tokens_a_second = 0;
  double generated_tokens_a_second = 0;
};

class Scheduler {
 public:
  // Keeps references; `cache` may be null. kUsage for an option that leaves no room for anything. An engine
  // whose prompt_chunk is below a budget cuts prompts into more steps.
  Scheduler(const Engine& engine, const K3Config& config, SchedulerOptions options,
            PrefixCache* cache = nullptr);
  ~Scheduler();  // cancels what is left; every listener hears of its end. Not from inside a listener.
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // kUsage naming what is wrong with the request itself (engine.h: check_request()). Any thread.
  std::variant<JobId, Refusal> submit(Job job);

  // The job ends before its next step, wherever it is; nothing happens to one that has ended. Any thread.
  void cancel(JobId id);

  // Accepts nothing more; what was accepted goes on. Any thread.
  void drain();
  // Waits until there is neither a running nor a waiting job; false if that took too long. Not from inside a
  // listener.
  bool wait_until_idle(std::chrono::milliseconds at_most);

  SchedulerStatistics statistics() const;

 private:
  using Running = RunningJob;
  struct Turn;  // what one look at the queue brings
  using Clock = std::chrono::steady_clock;

  void check_options() const;
  Refusal refusal(Refusal::Reason reason, std::uint64_t bytes) const;

  void work();
  bool next_turn(Turn& turn);
  void admit(Turn& turn);
  void end_waiting(WaitingJob waiting);
  void start(WaitingJob waiting);
  void take_restored(PrefixRestorer::Restored restored);
  void begin_prompt(Running& running, std::optional<SequenceState> known);
  static void drop_useless_cuts(const PrefixCache& cache, Running& running);
  bool nobody_can_step() const;
  bool can_admit() const;
  void wake_up();

  std::vector<std::size_t> shares_of_step() const;
  void run_step();
  void account(std::span<Running* const> stepped, double model_seconds);
  void tell_progress(Running& running) const;
  void keep_snapshot(const Running& running) const;

  void finish(Running& running);
  void end_job(JobId id, JobListener& listener, const JobSummary& summary);
  void finish_ended();

  const Engine& engine_;
  const K3Config& config_;
  const SchedulerOptions options_;
  PrefixCache* const cache_;

  mutable std::mutex mutex_;  // of everything down to the thread's own
  std::condition_variable wake_;
  std::condition_variable idle_;
  FairQueue queue_;
  std::unordered_set<JobId> alive_;      // accepted and not finished
  std::unordered_set<JobId> cancelled_;  // of those, to be ended
  JobId next_id_ = 1;
  bool news_ = false;  // somebody asked for something since the last turn began
  bool draining_ = false;
  bool stopping_ = false;
  SchedulerStatistics statistics_;           // without `prompts`
  std::map<JobId, PromptProgress> prompts_;  // of running jobs
  RateMeter prompt_rate_;
  RateMeter generated_rate_;
  double mean_job_seconds_ = 0;  // of recent jobs in the running state; 0: none has ended yet

  std::unique_ptr<PrefixRestorer> restorer_;       // null without a cache
  std::vector<std::unique_ptr<Running>> running_;  // the thread's own, in order of admission
  std::thread thread_;                             // last, because it uses all the others
};

}  // namespace perigee
