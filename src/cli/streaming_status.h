// What streaming of experts is doing, for people: a line that is redrawn while they wait, and the sentence at
// the end. And the same for programs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

#include "model/weights.h"

namespace perigee {

// On a terminal on standard error, twice a second until stop(); nothing for a model that is all in memory.
class StreamingStatus {
 public:
  explicit StreamingStatus(const LoadedModel& weights);
  ~StreamingStatus() { stop(); }
  StreamingStatus(const StreamingStatus&) = delete;
  StreamingStatus& operator=(const StreamingStatus&) = delete;

  void stop();  // wipes the line; may be called again

 private:
  void redraw();

  const StreamedExperts* experts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// "experts: 61% from memory (…), 12.3 GB read at 1.9 GB/s, 4.2 s waited"; empty if nothing was streamed.
std::string streaming_summary(const LoadedModel& weights);

// {"home": "resident" or "streamed", "memory": {…}, and what streaming did}
nlohmann::ordered_json experts_json(const LoadedModel& weights);

}  // namespace perigee
