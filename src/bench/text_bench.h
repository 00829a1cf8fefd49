// How fast text becomes ids and ids become a message, beside tiktoken on the same texts in the same run and
// beside what one core can read from memory. Ids are compared, so a fast wrong answer is an error here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace perigee {

struct TextBenchOptions {
  std::filesystem::path vocabulary;
  std::size_t input_bytes = 2'000'000;  // of each text; worst cases are five times as long
  unsigned rounds = 5;
  unsigned threads = 1;           // for the parallel rates
  std::vector<std::string> peer;  // program and script of tools/peers; empty: none
  // Called before each step with what is about to run.
  std::function<void(const std::string&)> announce;
};

// Rates are medians in bytes of text per second: of CPU time on one thread, here and in the peer, so that
// other work on the machine disturbs both as little as possible; of time on the wall where threads share the
// work.
struct EncodeRate {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t ids = 0;
  double one_thread = 0;
  double parallel = 0;
  std::optional<double> peer;
};

struct TimedWork {
  std::string name;
  double seconds = 0;  // median, CPU time
  std::uint64_t ids = 0;
  std::optional<double> peer_seconds;
};

struct TextBenchResult {
  double memory_read = 0;  // bytes per second, one core
  std::string peer_version;
  std::vector<EncodeRate> texts;
  std::vector<EncodeRate> worst_cases;
  TimedWork load;            // vocabulary and merges from the file
  TimedWork long_prompt;     // half as many ids as input_bytes
  TimedWork long_session;    // 200 messages and 60 tools: to segments, to ids
  TimedWork reply_by_token;  // a reply of think, content and calls, parsed id by id
};

// kMismatch naming the text if two ways of encoding it differ, or tiktoken's does.
TextBenchResult bench_text(const TextBenchOptions& options);

}  // namespace perigee
