#include "engine/scheduler.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/prefix_cache.h"
#include "engine/prompt_budget.h"
#include "engine/running_job.h"
#include "model/memory_needs.h"

namespace perigee {
namespace {

constexpr double kShortestRetry = 1;  // seconds
constexpr double kLongestRetry = 600;
constexpr double kOldJobs = 0.8;  // what the mean length of jobs keeps of the past when one more ends

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Of the longest state that the request can lead to.
std::uint64_t planned_bytes(const K3Config& config, const GenerationRequest& request, Precision precision) {
  std::uint64_t tokens = config.max_position_embeddings;
  if (request.max_tokens > 0 && request.max_tokens < tokens - request.prompt.size())
    tokens = request.prompt.size() + request.max_tokens;
  return state_bytes(config, tokens, precision);
}

std::string words_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace

struct Scheduler::Turn {
  Clock::time_point begun;
  std::unordered_set<JobId> cancelled;
  std::vector<WaitingJob> ended;  // cancelled before they began
  std::vector<WaitingJob> admitted;
  std::vector<PrefixRestorer::Restored> restored;
};

Scheduler::Scheduler(const Engine& engine, const K3Config& config, SchedulerOptions options,
                     PrefixCache* cache)
    : engine_(engine), config_(config), options_(options), cache_(cache) {
  check_options();
  statistics_.memory_bytes = options_.memory_bytes;
  if (cache_) {
    restorer_ = std::make_unique<PrefixRestorer>(
        [this](const GenerationRequest& request) { return cache_->find(request); },
        [this] {
          const std::scoped_lock lock(mutex_);
          wake_up();
        });
  }
  thread_ = std::thread([this] { work(); });
}

Scheduler::~Scheduler() {
  {
    const std::scoped_lock lock(mutex_);
    draining_ = stopping_ = true;
    wake_up();
  }
  thread_.join();
}

void Scheduler::check_options() const {
  if (options_.most_running == 0) fail(ErrorCode::kUsage, "a scheduler must be able to run at least one job");
  if (options_.prompt_budget_alone == 0 || options_.prompt_budget_beside_replies == 0)
    fail(ErrorCode::kUsage, "a step must be able to read at least one prompt token");
  const std::uint64_t least = state_bytes(config_, 1, engine_.precision());
  if (options_.memory_bytes < least) {
    fail(ErrorCode::kUsage, "memory for states is {} bytes, but a single sequence needs {}",
         options_.memory_bytes, least);
  }
}

Refusal Scheduler::refusal(Refusal::Reason reason, std::uint64_t bytes) const {
  switch (reason) {
    case Refusal::Reason::kDraining:
      return {reason, 0, "the server is shutting down and takes no more requests"};
    case Refusal::Reason::kTooLarge:
      return {reason, 0,
              fmt::format("the prompt and the reply may need {} bytes of state, but there are {}; ask for "
                          "fewer tokens",
                          bytes, options_.memory_bytes)};
    case Refusal::Reason::kQueueFull:
      break;
  }
  // A place in the queue is free when one of the running jobs ends.
  const double wait = mean_job_seconds_ / static_cast<double>(std::max<std::size_t>(1, statistics_.running));
  return {reason, std::clamp(wait, kShortestRetry, kLongestRetry),
          fmt::format("{} requests are waiting already; try again later", queue_.size())};
}

std::variant<JobId, Refusal> Scheduler::submit(Job job) {
  if (!job.listener) fail(ErrorCode::kInternal, "a job needs a listener");
  check_request(config_, job.request);
  const std::uint64_t bytes = planned_bytes(config_, job.request, engine_.precision());
  const std::scoped_lock lock(mutex_);
  std::optional<Refusal::Reason> refused;
  if (draining_) {
    refused = Refusal::Reason::kDraining;
  } else if (bytes > options_.memory_bytes) {
    refused = Refusal::Reason::kTooLarge;
  } else if (queue_.size() >= options_.most_waiting) {
    refused = Refusal::Reason::kQueueFull;
  }
  if (refused) {
    ++statistics_.jobs_refused;
    return refusal(*refused, bytes);
  }
  const JobId id = next_id_++;
  queue_.push({.id = id, .job = std::move(job), .bytes = bytes, .since = Clock::now()});
  alive_.insert(id);
  wake_up();
  return id;
}

void Scheduler::cancel(JobId id) {
  const std::scoped_lock lock(mutex_);
  if (!alive_.contains(id)) return;
  cancelled_.insert(id);
  wake_up();
}

// Under the lock.
void Scheduler::wake_up() {
  news_ = true;
  wake_.notify_all();
}

void Scheduler::drain() {
  const std::scoped_lock lock(mutex_);
  draining_ = true;
}

bool Scheduler::wait_until_idle(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, at_most, [&] { return alive_.empty(); });
}

SchedulerStatistics Scheduler::statistics() const {
  const std::scoped_lock lock(mutex_);
  SchedulerStatistics statistics = statistics_;
  statistics.waiting = queue_.size();
  for (const auto& [id, progress] : prompts_) statistics.prompts.push_back(progress);
  const auto now = Clock::now();
  statistics.prompt_tokens_a_second = prompt_rate_.rate(now);
  statistics.generated_tokens_a_second = generated_rate_.rate(now);
  return statistics;
}

void Scheduler::work() {
  Turn turn;
  while (next_turn(turn)) {
    for (WaitingJob& waiting : turn.ended) end_waiting(std::move(waiting));
    for (const auto& running : running_) {
      if (!turn.cancelled.contains(running->id) || running->ended()) continue;
      running->summary.cancelled = true;
      running->stop();
    }
    for (PrefixRestorer::Restored& restored : turn.restored) take_restored(std::move(restored));
    for (WaitingJob& waiting : turn.admitted) start(std::move(waiting));
    finish_ended();
    run_step();
    finish_ended();
    const std::scoped_lock lock(mutex_);
    statistics_.busy_seconds += seconds_between(turn.begun, Clock::now());
  }
}

bool Scheduler::nobody_can_step() const {
  return std::ranges::all_of(running_, [](const auto& running) { return running->restoring; });
}

// Under the lock.
bool Scheduler::can_admit() const {
  const WaitingJob* next = queue_.next();
  return next != nullptr && statistics_.running < options_.most_running &&
         next->bytes <= options_.memory_bytes - statistics_.reserved_bytes;
}

// Sleeps while there is nothing to do. False: the scheduler ends, and nobody is left.
bool Scheduler::next_turn(Turn& turn) {
  turn = {};
  std::unique_lock lock(mutex_);
  const auto has_work = [&] { return news_ || can_admit() || (stopping_ && alive_.empty()); };
  if (nobody_can_step()) wake_.wait(lock, has_work);
  turn.begun = Clock::now();
  news_ = false;
  if (stopping_ && alive_.empty()) return false;
  if (stopping_) cancelled_ = alive_;
  turn.cancelled = std::exchange(cancelled_, {});
  turn.ended = queue_.take(turn.cancelled);
  if (restorer_) turn.restored = restorer_->take();
  admit(turn);
  return true;
}

// Under the lock. In the queue's order without exception: a job that must wait for much memory would
// otherwise be overtaken for ever.
void Scheduler::admit(Turn& turn) {
  while (can_admit()) {
    WaitingJob admitted = queue_.pop();
    statistics_.reserved_bytes += admitted.bytes;
    ++statistics_.running;
    prompts_[admitted.id] = {.done = 0, .total = admitted.job.request.prompt.size(), .restoring = false};
    turn.admitted.push_back(std::move(admitted));
  }
}

void Scheduler::end_waiting(WaitingJob waiting) {
  JobSummary summary;
  summary.cancelled = true;
  summary.prompt_tokens = waiting.job.request.prompt.size();
  summary.waiting_seconds = seconds_between(waiting.since, Clock::now());
  end_job(waiting.id, *waiting.job.listener, summary);
}

void Scheduler::start(WaitingJob waiting) {
  running_.push_back(std::make_unique<Running>());
  Running& running = *running_.back();
  Job& job = waiting.job;
  running.id = waiting.id;
  running.bytes = waiting.bytes;
  running.client = std::move(job.client);
  running.priority = job.priority;
  running.listener = std::move(job.listener);
  running.snapshot_end = job.snapshot_end;
  running.cuts = std::move(job.snapshot_positions);
  running.submitted = waiting.since;
  running.started = Clock::now();
  running.summary.prompt_tokens = job.request.prompt.size();
  running.summary.waiting_seconds = seconds_between(running.submitted, running.started);
  try {
    running.sequence = std::make_shared<Sequence>(config_, std::move(job.request));
    if (cache_ && cache_->knows_prefix(running.sequence->request())) {
      running.restoring = true;
      restorer_->begin(running.id, running.sequence);
      const std::scoped_lock lock(mutex_);
      prompts_[running.id].restoring = true;
    } else {
      begin_prompt(running, std::nullopt);
    }
  } catch (...) {
    running.fail_with_current_exception();
  }
}

// Nothing, if the job has ended meanwhile.
void Scheduler::take_restored(PrefixRestorer::Restored restored) {
  const auto place =
      std::ranges::find(running_, restored.id, [](const auto& running) { return running->id; });
  if (place == running_.end() || (*place)->ended()) return;
  Running& running = **place;
  running.restoring = false;
  try {
    if (restored.failure) std::rethrow_exception(restored.failure);
    begin_prompt(running, std::move(restored.state));
  } catch (...) {
    running.fail_with_current_exception();
  }
}

// Behind the longest prefix that is known already.
void Scheduler::begin_prompt(Running& running, std::optional<SequenceState> known) {
  Sequence& sequence = *running.sequence;
  if (known) {
    running.summary.cached_tokens = known->position;
    sequence.resume(std::move(*known));
  }
  {
    const std::scoped_lock lock(mutex_);
    queue_.give_back(running.client, running.summary.cached_tokens);
    prompts_[running.id].done = sequence.computed();
    prompts_[running.id].restoring = false;
  }
  if (cache_) {
    drop_useless_cuts(*cache_, running);
  } else {
    running.cuts.clear();
  }
  running.listener->on_started(running.summary.cached_tokens);
}

// Leaves those in front of the prompt's reading, the next one last, whose state is not kept yet.
void Scheduler::drop_useless_cuts(const PrefixCache& cache, Running& running) {
  const Sequence& sequence = *running.sequence;
  std::vector<std::size_t>& cuts = running.cuts;
  std::ranges::sort(cuts, std::greater<>());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::erase_if(cuts, [&](std::size_t cut) {
    return cut <= sequence.computed() || cut > sequence.request().prompt.size() ||
           cache.contains(sequence.request(), cut);
  });
}

// Prompt tokens of each running job in the next step; of a job that generates 1, its own token; 0: not in it.
std::vector<std::size_t> Scheduler::shares_of_step() const {
  std::vector<PromptNeed> needs;
  std::vector<std::size_t> shares(running_.size(), 0);
  std::vector<std::size_t> indices;
  bool replies = false;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const Running& running = *running_[i];
    if (running.restoring) continue;
    if (running.sequence->in_prompt()) {
      needs.push_back({running.client, running.priority, running.readable_tokens()});
      indices.push_back(i);
    } else {
      shares[i] = 1;
      replies = true;
    }
  }
  const std::vector<std::size_t> given = share_prompt_budget(
      needs, replies ? options_.prompt_budget_beside_replies : options_.prompt_budget_alone);
  for (std::size_t i = 0; i < indices.size(); ++i) shares[indices[i]] = given[i];
  return shares;
}

void Scheduler::run_step() {
  std::vector<Running*> stepped;
  std::vector<Sequence*> sequences;
  std::vector<std::size_t> tokens;
  const std::vector<std::size_t> shares = shares_of_step();
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (shares[i] == 0) continue;
    Running& running = *running_[i];
    running.was_in_prompt = running.sequence->in_prompt();
    running.computed_before = running.sequence->computed();
    running.generated_before = running.sequence->generated().size();
    stepped.push_back(&running);
    sequences.push_back(running.sequence.get());
    tokens.push_back(shares[i]);
  }
  if (stepped.empty()) return;
  const auto begin = Clock::now();
  try {
    engine_.step(sequences, tokens);
  } catch (...) {  // each of the sequences knows of it
    log_warning("a step of {} sequences failed: {}", sequences.size(), words_of(std::current_exception()));
  }
  account(stepped, seconds_between(begin, Clock::now()));
  for (Running* running : stepped) tell_progress(*running);
}

void Scheduler::account(std::span<Running* const> stepped, double model_seconds) {
  const auto now = Clock::now();
  std::uint64_t prompt_tokens = 0, generated = 0;
  const std::scoped_lock lock(mutex_);
  for (Running* running : stepped) {
    if (running->was_in_prompt) {
      prompt_tokens += running->sequence->computed() - running->computed_before;
      prompts_[running->id].done = running->sequence->computed();
    }
    if (!running->has_new_token()) continue;
    ++generated;
    if (running->generated_before == 0) prompts_.erase(running->id);
    queue_.charge(running->client, 1);
    if (running->generated_before == 0) running->first_token = now;
    running->last_token = now;
  }
  ++statistics_.steps;
  statistics_.model_seconds += model_seconds;
  statistics_.prompt_tokens += prompt_tokens;
  statistics_.generated_tokens += generated;
  prompt_rate_.add(prompt_tokens, now);
  generated_rate_.add(generated, now);
}

void Scheduler::tell_progress(Running& running) const {
  const Sequence& sequence = *running.sequence;
  if (sequence.failure()) return;
  if (!running.cuts.empty() && running.cuts.back() == sequence.computed()) {
    running.cuts.pop_back();
    keep_snapshot(running);
  }
  try {
    if (running.was_in_prompt)
      running.listener->on_prompt(sequence.computed(), sequence.request().prompt.size());
    if (running.has_new_token() && !running.listener->on_token(sequence.generated().back())) running.stop();
  } catch (...) {
    running.fail_with_current_exception();
  }
}

// A job does not suffer from a snapshot that cannot be kept.
void Scheduler::keep_snapshot(const Running& running) const {
  try {
    cache_->keep(*running.sequence);
  } catch (...) {
    log_warning("the state after {} tokens could not be kept: {}", running.sequence->computed(),
                words_of(std::current_exception()));
  }
}

void Scheduler::finish_ended() {
  for (const auto& running : running_) {
    if (running->ended()) finish(*running);
  }
  std::erase_if(running_, [](const auto& running) { return !running->sequence; });
}

void Scheduler::finish(Running& running) {
  JobSummary& summary = running.summary;
  if (const Sequence* sequence = running.sequence.get()) {
    summary.end = sequence->end().value_or(GenerationEnd::kStopped);
    summary.generated_tokens = sequence->generated().size();
    if (!summary.failure) summary.failure = sequence->failure();
    const bool whole = !summary.failure && !summary.cancelled;
    if (cache_ && running.snapshot_end && whole && sequence->computed() > summary.prompt_tokens)
      keep_snapshot(running);
  }
  if (summary.failure) summary.end = GenerationEnd::kFailed;
  if (summary.generated_tokens > 0) {
    summary.prompt_seconds = seconds_between(running.started, running.first_token);
    summary.generation_seconds = seconds_between(running.first_token, running.last_token);
  }
  running.sequence.reset();  // before its memory is given to another
  {
    const std::scoped_lock lock(mutex_);
    const double seconds = seconds_between(running.started, Clock::now());
    mean_job_seconds_ =
        mean_job_seconds_ == 0 ? seconds : kOldJobs * mean_job_seconds_ + (1 - kOldJobs) * seconds;
    statistics_.reserved_bytes -= running.bytes;
    --statistics_.running;
    prompts_.erase(running.id);
    statistics_.cached_tokens += summary.cached_tokens;
    queue_.leave(running.client);
  }
  end_job(running.id, *running.listener, summary);
}

// The last that is heard of a job.
void Scheduler::end_job(JobId id, JobListener& listener, const JobSummary& summary) {
  {
    const std::scoped_lock lock(mutex_);
    if (summary.failure) {
      ++statistics_.jobs_failed;
    } else if (summary.cancelled) {
      ++statistics_.jobs_cancelled;
    } else {
      ++statistics_.jobs_finished;
    }
  }
  try {
    listener.on_finished(summary);
  } catch (...) {
    log_warning("a listener failed when it heard of its job's end: {}", words_of(std::current_exception()));
  }
  const std::scoped_lock lock(mutex_);
  alive_.erase(id);
  cancelled_.erase(id);
  if (alive_.empty()) idle_.notify_all();
}

}  // namespace perigee
