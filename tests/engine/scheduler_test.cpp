#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "engine/job_recorder.h"
#include "engine/loaded_mini.h"
#include "engine/prefix_cache.h"
#include "model/memory_needs.h"
#include "support/expect_error.h"

namespace perigee {
namespace {

using namespace std::chrono_literals;
using test::JobRecorder;
using Recorders = std::vector<std::shared_ptr<JobRecorder>>;

const Model& model() {
  static const auto ops = make_ops({});
  static const Model loaded(test::mini_weights(), *ops);
  return loaded;
}

const Engine& engine() {
  static const Engine made(model(), {});
  return made;
}

const K3Config& config() {
  return model().config();
}

GenerationRequest request(std::size_t prompt, std::uint32_t start, std::size_t max_tokens) {
  GenerationRequest made;
  made.prompt = test::mini_ids(prompt, start);
  made.max_tokens = max_tokens;
  made.sampling.seed = start;
  made.sampling.top_p = 1;
  return made;
}

Job job(GenerationRequest from, const std::shared_ptr<JobRecorder>& recorder,
        const std::string& client = "somebody") {
  Job made;
  made.request = std::move(from);
  made.client = client;
  made.listener = recorder;
  return made;
}

std::vector<std::uint32_t> generated_alone(const GenerationRequest& from) {
  Sequence one(config(), from);
  engine().run(one, {}, {}, CancelToken{});
  return {one.ids().begin() + static_cast<std::ptrdiff_t>(from.prompt.size()), one.ids().end()};
}

JobId accepted(const std::variant<JobId, Refusal>& answer) {
  if (const Refusal* refusal = std::get_if<Refusal>(&answer)) ADD_FAILURE() << refusal->sentence;
  return std::get<JobId>(answer);
}

Refusal refused(const std::variant<JobId, Refusal>& answer) {
  EXPECT_TRUE(std::holds_alternative<Refusal>(answer));
  return std::get<Refusal>(answer);
}

// Keeps the scheduler's thread inside a listener until it is let go.
class Gate {
 public:
  void wait() { opened_.wait(); }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

TEST(Scheduler, TokensAreThoseOfTheSequenceAlone) {
  std::vector<GenerationRequest> requests;
  Recorders recorders;
  Scheduler scheduler(engine(), config(),
                      {.most_running = 4, .prompt_budget_beside_replies = 3, .prompt_budget_alone = 7});
  for (std::uint32_t i = 0; i < 7; ++i) {
    requests.push_back(request(1 + 5 * i, i, 2 + i));
    recorders.push_back(std::make_shared<JobRecorder>());
    accepted(scheduler.submit(job(requests[i], recorders[i], i % 2 ? "odd" : "even")));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const JobSummary& summary = recorders[i]->wait();
    EXPECT_EQ(summary.end, GenerationEnd::kMaxTokens);
    EXPECT_EQ(summary.generated_tokens, requests[i].max_tokens);
    EXPECT_EQ(recorders[i]->ids, generated_alone(requests[i])) << "job " << i;
    EXPECT_EQ(recorders[i]->progress.back(), requests[i].prompt.size());
  }
  EXPECT_TRUE(scheduler.wait_until_idle(1min));
  const SchedulerStatistics statistics = scheduler.statistics();
  EXPECT_EQ(statistics.jobs_finished, 7u);
  EXPECT_EQ(statistics.prompt_tokens, 1u + 6 + 11 + 16 + 21 + 26 + 31);
  EXPECT_EQ(statistics.generated_tokens, 2u + 3 + 4 + 5 + 6 + 7 + 8);
  EXPECT_EQ(statistics.reserved_bytes, 0u);
  EXPECT_EQ(statistics.running + statistics.waiting, 0u);
}

TEST(Scheduler, ALongPromptDelaysARepliesTokensByItsBudgetOnly) {
  Scheduler scheduler(engine(), config(), {.prompt_budget_beside_replies = 3, .prompt_budget_alone = 40});
  const auto reply = std::make_shared<JobRecorder>();
  const auto reader = std::make_shared<JobRecorder>();
  std::vector<std::pair<std::size_t, std::size_t>> readings;  // tokens of the reply so far, prompt read
  reader->when_prompt = [&](std::size_t done) { readings.emplace_back(reply->ids.size(), done); };
  reply->when_token = [&] {
    if (reply->ids.size() == 1) accepted(scheduler.submit(job(request(60, 8, 1), reader)));
    return true;
  };
  accepted(scheduler.submit(job(request(4, 7, 8), reply)));
  reply->wait();
  reader->wait();
  ASSERT_GE(readings.size(), 8u);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(readings[i].first, i + 2) << "the reply moves on in every step";
    EXPECT_EQ(readings[i].second, 3 * (i + 1));
  }
  EXPECT_EQ(readings[7].second, 21u + 39) << "alone it reads more at once";
}

TEST(Scheduler, AdmitsOnlyWhatItsMemoryHoldsToTheEnd) {
  const GenerationRequest one = request(8, 1, 6);
  const std::uint64_t bytes = state_bytes(config(), 14, Precision::kBf16);
  Scheduler scheduler(engine(), config(), {.memory_bytes = 2 * bytes});
  int at_once = 0, most_at_once = 0;  // the scheduler's thread alone counts
  Gate gate;
  Recorders recorders;
  for (int i = 0; i < 5; ++i) {
    recorders.push_back(std::make_shared<JobRecorder>());
    recorders.back()->when_started = [&, is_first = i == 0] {
      most_at_once = std::max(most_at_once, ++at_once);
      EXPECT_LE(scheduler.statistics().reserved_bytes, 2 * bytes);
      if (is_first) gate.wait();
    };
    recorders.back()->when_finished = [&] { --at_once; };
    accepted(scheduler.submit(job(one, recorders.back())));
  }
  gate.open();
  for (const auto& recorder : recorders) EXPECT_EQ(recorder->wait().end, GenerationEnd::kMaxTokens);
  EXPECT_EQ(most_at_once, 2);
}

TEST(Scheduler, RefusesAJobThatCanNeverFit) {
  Scheduler scheduler(engine(), config(), {.memory_bytes = state_bytes(config(), 14, Precision::kBf16)});
  const auto recorder = std::make_shared<JobRecorder>();
  const std::size_t too_many = 14 + kMlaPiece;
  const Refusal refusal = refused(scheduler.submit(job(request(8, 1, too_many), recorder)));
  EXPECT_EQ(refusal.reason, Refusal::Reason::kTooLarge);
  EXPECT_EQ(recorder->started, 0);
  accepted(scheduler.submit(job(request(8, 1, 6), recorder)));
  EXPECT_EQ(recorder->wait().end, GenerationEnd::kMaxTokens);
  EXPECT_EQ(scheduler.statistics().jobs_refused, 1u);
}

TEST(Scheduler, SaysOfABrokenRequestWhatIsWrong) {
  Scheduler scheduler(engine(), config(), {});
  GenerationRequest hot = request(3, 1, 1);
  hot.sampling.temperature = -1;
  EXPECT_ERROR(scheduler.submit(job(hot, std::make_shared<JobRecorder>())), ErrorCode::kUsage, "temperature");
  EXPECT_ERROR(scheduler.submit(job(request(0, 1, 1), std::make_shared<JobRecorder>())), ErrorCode::kUsage,
               "no tokens");
}

TEST(Scheduler, RefusesWhatItsQueueCannotHoldAndSaysWhenToComeBack) {
  Scheduler scheduler(engine(), config(), {.most_running = 1, .most_waiting = 2});
  Gate gate;
  const auto running = std::make_shared<JobRecorder>();
  std::promise<void> started;
  running->when_started = [&] {
    started.set_value();
    gate.wait();
  };
  accepted(scheduler.submit(job(request(2, 1, 1), running)));
  started.get_future().wait();
  Recorders waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(std::make_shared<JobRecorder>());
    accepted(scheduler.submit(job(request(2, 2, 1), waiting.back())));
  }
  const Refusal refusal = refused(scheduler.submit(job(request(2, 3, 1), std::make_shared<JobRecorder>())));
  EXPECT_EQ(refusal.reason, Refusal::Reason::kQueueFull);
  EXPECT_GE(refusal.retry_after_seconds, 1);
  EXPECT_LE(refusal.retry_after_seconds, 600);
  EXPECT_EQ(scheduler.statistics().waiting, 2u);
  gate.open();
  for (const auto& recorder : waiting) EXPECT_EQ(recorder->wait().end, GenerationEnd::kMaxTokens);
}

TEST(Scheduler, ServesClientsInTurnHoweverManyJobsOneHas) {
  Scheduler scheduler(engine(), config(), {.most_running = 1});
  Gate gate;
  std::vector<std::string> order;
  const auto first = std::make_shared<JobRecorder>();
  std::promise<void> started;
  first->when_started = [&] {
    started.set_value();
    gate.wait();
  };
  accepted(scheduler.submit(job(request(4, 1, 1), first, "greedy")));
  started.get_future().wait();
  Recorders others;
  for (const std::string client : {"greedy", "greedy", "greedy", "modest"}) {
    others.push_back(std::make_shared<JobRecorder>());
    others.back()->when_started = [&order, client] { order.push_back(client); };
    accepted(scheduler.submit(job(request(4, 1, 1), others.back(), client)));
  }
  gate.open();
  for (const auto& recorder : others) recorder->wait();
  EXPECT_EQ(order.front(), "modest");
}

TEST(Scheduler, CancelsJobsWhereverTheyAre) {
  Scheduler scheduler(engine(), config(), {.most_running = 3, .prompt_budget_beside_replies = 1});
  const auto replying = std::make_shared<JobRecorder>();
  const auto reading = std::make_shared<JobRecorder>();
  const auto waiting = std::make_shared<JobRecorder>();
  const auto untouched = std::make_shared<JobRecorder>();
  std::vector<JobId> ids;
  untouched->when_token = [&] {
    if (untouched->ids.size() == 5) {
      for (const JobId id : ids) scheduler.cancel(id);
    }
    return true;
  };
  const GenerationRequest kept = request(1, 5, 20);
  Gate gate;
  replying->when_started = [&] { gate.wait(); };
  ids.push_back(accepted(scheduler.submit(job(request(1, 6, 1000), replying))));
  accepted(scheduler.submit(job(kept, untouched)));
  ids.push_back(accepted(scheduler.submit(job(request(500, 7, 1), reading))));
  ids.push_back(accepted(scheduler.submit(job(request(3, 8, 1), waiting))));
  gate.open();
  for (const auto& cancelled : {replying, reading, waiting}) {
    const JobSummary& summary = cancelled->wait();
    EXPECT_TRUE(summary.cancelled);
    EXPECT_EQ(summary.end, GenerationEnd::kStopped);
  }
  EXPECT_LE(replying->ids.size(), 6u);
  EXPECT_GE(replying->ids.size(), 5u);
  EXPECT_LT(reading->progress.back(), 500u);
  EXPECT_EQ(waiting->started, 0);
  EXPECT_FALSE(untouched->wait().cancelled);
  EXPECT_EQ(untouched->ids, generated_alone(kept));
  EXPECT_TRUE(scheduler.wait_until_idle(1min));
  EXPECT_EQ(scheduler.statistics().jobs_cancelled, 3u);
  EXPECT_EQ(scheduler.statistics().reserved_bytes, 0u);
}

TEST(Scheduler, AListenerThatHasEnoughEndsItsJob) {
  Scheduler scheduler(engine(), config(), {});
  const auto recorder = std::make_shared<JobRecorder>();
  recorder->when_token = [&] { return recorder->ids.size() < 3; };
  accepted(scheduler.submit(job(request(2, 1, 50), recorder)));
  const JobSummary& summary = recorder->wait();
  EXPECT_EQ(summary.end, GenerationEnd::kStopped);
  EXPECT_FALSE(summary.cancelled);
  EXPECT_EQ(summary.generated_tokens, 3u);
}

TEST(Scheduler, AFailureStaysInItsJob) {
  Scheduler scheduler(engine(), config(), {});
  GenerationRequest broken = request(3, 1, 9);
  broken.on_logits = [](std::span<const float>) { fail(ErrorCode::kCorrupt, "its logits are broken"); };
  const GenerationRequest sound = request(5, 2, 9);
  const auto broken_recorder = std::make_shared<JobRecorder>();
  const auto throwing = std::make_shared<JobRecorder>();
  const auto sound_recorder = std::make_shared<JobRecorder>();
  throwing->when_token = [&]() -> bool { throw std::runtime_error("nobody listens"); };
  accepted(scheduler.submit(job(broken, broken_recorder)));
  accepted(scheduler.submit(job(request(4, 3, 9), throwing)));
  accepted(scheduler.submit(job(sound, sound_recorder)));
  for (const auto& failed : {broken_recorder, throwing}) {
    EXPECT_EQ(failed->wait().end, GenerationEnd::kFailed);
    EXPECT_TRUE(failed->summary.failure);
  }
  EXPECT_ERROR(std::rethrow_exception(broken_recorder->summary.failure), ErrorCode::kCorrupt, "logits");
  EXPECT_EQ(sound_recorder->wait().end, GenerationEnd::kMaxTokens);
  EXPECT_EQ(sound_recorder->ids, generated_alone(sound));
}

TEST(Scheduler, DrainsWithoutLosingWhatItAccepted) {
  Scheduler scheduler(engine(), config(), {.most_running = 1});
  Recorders recorders;
  for (std::uint32_t i = 0; i < 3; ++i) {
    recorders.push_back(std::make_shared<JobRecorder>());
    accepted(scheduler.submit(job(request(3, i, 4), recorders.back())));
  }
  scheduler.drain();
  EXPECT_EQ(refused(scheduler.submit(job(request(3, 9, 1), std::make_shared<JobRecorder>()))).reason,
            Refusal::Reason::kDraining);
  EXPECT_TRUE(scheduler.wait_until_idle(2min));
  for (const auto& recorder : recorders) EXPECT_EQ(recorder->wait().end, GenerationEnd::kMaxTokens);
}

TEST(Scheduler, ItsEndIsHeardByEveryJob) {
  Recorders recorders;
  {
    Scheduler scheduler(engine(), config(), {.most_running = 2});
    for (std::uint32_t i = 0; i < 5; ++i) {
      recorders.push_back(std::make_shared<JobRecorder>());
      accepted(scheduler.submit(job(request(3, i, 100'000), recorders.back())));
    }
  }
  for (const auto& recorder : recorders) EXPECT_TRUE(recorder->wait().cancelled);
}

TEST(Scheduler, ReadsKnownPrefixesFromTheCache) {
  PrefixCache cache(config(), "mini", {.memory_bytes = 64 << 20, .folder = {}});
  Scheduler scheduler(engine(), config(), {.prompt_budget_alone = 16}, &cache);
  GenerationRequest first = request(40, 3, 5);
  GenerationRequest second = first;
  second.prompt.resize(33);
  for (const std::uint32_t id : test::mini_ids(20, 99)) second.prompt.push_back(id);
  const auto recorder = std::make_shared<JobRecorder>();
  const auto later = std::make_shared<JobRecorder>();
  Job turn = job(first, recorder);
  turn.snapshot_positions = {25, 7, 25, 400, 0};
  accepted(scheduler.submit(std::move(turn)));
  EXPECT_EQ(recorder->wait().cached_tokens, 0u);
  EXPECT_TRUE(std::ranges::count(recorder->progress, 7u) == 1 &&
              std::ranges::count(recorder->progress, 25u) == 1)
      << "a step ends where a snapshot is taken";
  accepted(scheduler.submit(job(second, later)));
  EXPECT_EQ(later->wait().cached_tokens, 25u);
  EXPECT_EQ(recorder->ids, generated_alone(first));
  EXPECT_EQ(later->ids, generated_alone(second));
  EXPECT_EQ(scheduler.statistics().cached_tokens, 25u);
}

TEST(Scheduler, AReplyCanBeContinuedFromItsEnd) {
  PrefixCache cache(config(), "mini", {.memory_bytes = 64 << 20, .folder = {}});
  Scheduler scheduler(engine(), config(), {}, &cache);
  GenerationRequest first = request(10, 3, 6);
  const auto recorder = std::make_shared<JobRecorder>();
  Job turn = job(first, recorder);
  turn.snapshot_end = true;
  accepted(scheduler.submit(std::move(turn)));
  recorder->wait();
  GenerationRequest second = first;
  second.prompt.insert(second.prompt.end(), recorder->ids.begin(), recorder->ids.end());
  second.prompt.push_back(17);
  const auto later = std::make_shared<JobRecorder>();
  accepted(scheduler.submit(job(second, later)));
  EXPECT_EQ(later->wait().cached_tokens, 15u) << "the last token was never computed";
  EXPECT_EQ(later->ids, generated_alone(second));
}

TEST(Scheduler, TheLowestPriorityIsServedFirst) {
  Scheduler scheduler(engine(), config(), {.most_running = 1});
  Gate gate;
  std::vector<int> order;
  const auto first = std::make_shared<JobRecorder>();
  std::promise<void> started;
  first->when_started = [&] {
    started.set_value();
    gate.wait();
  };
  accepted(scheduler.submit(job(request(4, 1, 1), first)));
  started.get_future().wait();
  Recorders others;
  for (const int priority : {0, 7, -3, 2}) {
    others.push_back(std::make_shared<JobRecorder>());
    others.back()->when_started = [&order, priority] { order.push_back(priority); };
    Job one = job(request(4, 1, 1), others.back());
    one.priority = priority;
    accepted(scheduler.submit(std::move(one)));
  }
  gate.open();
  for (const auto& recorder : others) recorder->wait();
  EXPECT_EQ(order, (std::vector<int>{-3, 0, 2, 7}));
}

TEST(Scheduler, SaysHowFarPromptsAreRead) {
  Scheduler scheduler(engine(), config(), {.prompt_budget_alone = 4});
  const auto recorder = std::make_shared<JobRecorder>();
  std::vector<std::size_t> seen;
  recorder->when_prompt = [&](std::size_t) {
    for (const PromptProgress& prompt : scheduler.statistics().prompts) {
      EXPECT_EQ(prompt.total, 10u);
      EXPECT_FALSE(prompt.restoring);
      seen.push_back(prompt.done);
    }
  };
  accepted(scheduler.submit(job(request(10, 3, 2), recorder)));
  recorder->wait();
  EXPECT_EQ(seen, (std::vector<std::size_t>{4, 8})) << "with the last step it has its first token";
  EXPECT_TRUE(scheduler.statistics().prompts.empty());
}

TEST(Scheduler, CountsTheTimeOfTheModelAndItsOwn) {
  Scheduler scheduler(engine(), config(), {});
  const auto recorder = std::make_shared<JobRecorder>();
  const auto begin = std::chrono::steady_clock::now();
  accepted(scheduler.submit(job(request(20, 3, 10), recorder)));
  recorder->wait();
  EXPECT_TRUE(scheduler.wait_until_idle(1min));
  const SchedulerStatistics statistics = scheduler.statistics();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(statistics.model_seconds, 0);
  EXPECT_LE(statistics.model_seconds, took.count());
}

// A cache whose find() waits, as if its file lay on a slow disk.
class SlowCache final : public PrefixCache {
 public:
  using PrefixCache::PrefixCache;
  std::optional<SequenceState> find(const GenerationRequest& from) override {
    found.wait();
    return PrefixCache::find(from);
  }
  Gate found;
};

std::size_t restoring(const Scheduler& scheduler) {
  const std::vector<PromptProgress> prompts = scheduler.statistics().prompts;
  return static_cast<std::size_t>(std::ranges::count_if(prompts, &PromptProgress::restoring));
}

// Keeps the state behind the first ids of `whole` in the cache.
void keep_prefix(PrefixCache& cache, const GenerationRequest& whole, std::size_t length) {
  Sequence sequence(config(), whole);
  Sequence* const only = &sequence;
  engine().step({&only, 1}, {&length, 1});
  cache.keep(sequence);
}

TEST(Scheduler, RepliesGoOnWhileAPrefixIsRestored) {
  SlowCache cache(config(), "mini", {.memory_bytes = 64 << 20, .folder = {}});
  const GenerationRequest known = request(40, 3, 5);
  const GenerationRequest other = request(9, 8, 12);
  keep_prefix(cache, known, 30);
  Scheduler scheduler(engine(), config(), {}, &cache);
  const auto restored = std::make_shared<JobRecorder>();
  accepted(scheduler.submit(job(known, restored)));
  while (restoring(scheduler) == 0) std::this_thread::sleep_for(1ms);
  const auto replying = std::make_shared<JobRecorder>();
  accepted(scheduler.submit(job(other, replying)));
  EXPECT_EQ(replying->wait().generated_tokens, 12u);
  EXPECT_EQ(restored->started, 0);
  EXPECT_EQ(restoring(scheduler), 1u);
  cache.found.open();
  EXPECT_EQ(restored->wait().cached_tokens, 30u);
  EXPECT_EQ(restored->ids, generated_alone(known));
  EXPECT_EQ(replying->ids, generated_alone(other));
}

TEST(Scheduler, AJobThatIsBeingRestoredCanBeCancelledAtOnce) {
  SlowCache cache(config(), "mini", {.memory_bytes = 64 << 20, .folder = {}});
  const GenerationRequest known = request(40, 3, 5);
  keep_prefix(cache, known, 30);
  Scheduler scheduler(engine(), config(), {.most_running = 2}, &cache);
  Recorders recorders;
  for (int i = 0; i < 3; ++i) {  // the first is being restored, the others wait for that
    recorders.push_back(std::make_shared<JobRecorder>());
    const JobId id = accepted(scheduler.submit(job(known, recorders.back())));
    if (i == 1) continue;
    scheduler.cancel(id);
    EXPECT_TRUE(recorders.back()->wait().cancelled);
    EXPECT_EQ(recorders.back()->started, 0);
  }
  cache.found.open();
  EXPECT_FALSE(recorders[1]->wait().cancelled);
  EXPECT_EQ(recorders[1]->ids, generated_alone(known));
  EXPECT_TRUE(scheduler.wait_until_idle(1min));
  EXPECT_EQ(scheduler.statistics().reserved_bytes, 0u);
}

TEST(Scheduler, EndsWhileAPrefixIsRestored) {
  SlowCache cache(config(), "mini", {.memory_bytes = 64 << 20, .folder = {}});
  const GenerationRequest known = request(40, 3, 5);
  keep_prefix(cache, known, 30);
  const auto recorder = std::make_shared<JobRecorder>();
  {
    Scheduler scheduler(engine(), config(), {}, &cache);
    accepted(scheduler.submit(job(known, recorder)));
    while (restoring(scheduler) == 0) std::this_thread::sleep_for(1ms);
    recorder->when_finished = [&] { cache.found.open(); };
  }
  EXPECT_TRUE(recorder->wait().cancelled);
}

TEST(Scheduler, RefusesOptionsThatLeaveNoRoom) {
  EXPECT_ERROR(Scheduler(engine(), config(), {.most_running = 0}), ErrorCode::kUsage, "at least one job");
  EXPECT_ERROR(Scheduler(engine(), config(), {.memory_bytes = 1000}), ErrorCode::kUsage, "single sequence");
  EXPECT_ERROR(Scheduler(engine(), config(), {.prompt_budget_alone = 0}), ErrorCode::kUsage, "prompt token");
}

}  // namespace
}  // namespace perigee
