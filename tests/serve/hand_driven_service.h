// A model whose every word a test says itself, on its own thread: for tests of streams, cancellation and
// stopping.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>

#include "serve/generation_service.h"

namespace perigee::test {

class HandDrivenService final : public GenerationService {
 public:
  struct Accepted {
    JobId id = 0;
    Job job;
    void start() const { job.listener->on_started(0); }
    bool say(std::uint32_t token) const {
      return job.listener->on_token({.chosen = {token, -1.F}, .top = {}});
    }
    void finish(GenerationEnd end = GenerationEnd::kEndToken) const {
      JobSummary summary;
      summary.end = end;
      job.listener->on_finished(summary);
    }
    void finish_cancelled() const {
      JobSummary summary;
      summary.cancelled = true;
      job.listener->on_finished(summary);
    }
  };

  std::variant<JobId, Refusal> submit(Job job) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({next_id_, std::move(job)});
    changed_.notify_all();
    return next_id_++;
  }
  void cancel(JobId id) override {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(id);
    changed_.notify_all();
  }
  ServiceState state() const override { return {}; }

  // The oldest job that was not taken yet; fails the test by an exception if none comes.
  Accepted next_job() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return !waiting_.empty(); })) {
      throw std::runtime_error("no job came");
    }
    Accepted accepted = std::move(waiting_.front());
    waiting_.pop_front();
    return accepted;
  }
  bool was_cancelled(JobId id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return cancelled_.contains(id); });
  }

 private:
  static constexpr std::chrono::seconds kPatience{20};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Accepted> waiting_;
  std::set<JobId> cancelled_;
  JobId next_id_ = 1;
};

}  // namespace perigee::test
