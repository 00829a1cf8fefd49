// A listener that writes down what it hears, and lets a test wait for the end. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "engine/job.h"

namespace perigee::test {

class JobRecorder final : public JobListener {
 public:
  void on_started(std::size_t) override {
    ++started;
    if (when_started) when_started();
  }
  void on_prompt(std::size_t done, std::size_t) override {
    progress.push_back(done);
    if (when_prompt) when_prompt(done);
  }
  bool on_token(const SampledToken& token) override {
    EXPECT_FALSE(finished_) << "a token behind the end";
    ids.push_back(token.chosen.id);
    return !when_token || when_token();
  }
  void on_finished(const JobSummary& told) override {
    EXPECT_FALSE(finished_) << "a second end";
    finished_ = true;
    summary = told;
    if (when_finished) when_finished();
    end_.set_value();
  }

  // The summary, as soon as the job is over.
  const JobSummary& wait() {
    if (over_.wait_for(std::chrono::minutes(2)) != std::future_status::ready)
      ADD_FAILURE() << "a job does not end";
    return summary;
  }

  // Called on the scheduler's thread; may be empty.
  std::function<void()> when_started, when_finished;
  std::function<void(std::size_t done)> when_prompt;
  std::function<bool()> when_token;

  int started = 0;
  std::vector<std::size_t> progress;
  std::vector<std::uint32_t> ids;
  JobSummary summary;

 private:
  bool finished_ = false;
  std::promise<void> end_;
  std::future<void> over_ = end_.get_future();
};

}  // namespace perigee::test
