// What streaming of experts is doing, for people: a line that is redrawn while they wait, and the sentence at
// the end. And the same for programs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

#include "cli/generation.h"
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

// Of an answer behind its first token: "1.2 tokens/s; a token: 25.8 GB of experts, 61% from memory, 9.8 GB
// read and 0.9 GB read ahead, at 1.9 of 2.4 GB/s". The limit is what `perigee bench machine` measured, where
// it did. Empty if nothing was streamed or there is only one token.
std::string decoding_summary(const Generation& generation, std::optional<double> disk_bytes_per_second);

// {"home": "resident" or "streamed", "memory": {…}, and what streaming did}
nlohmann::ordered_json experts_json(const LoadedModel& weights);

}  // namespace perigee
