// Progress of long work: bytes done of bytes planned, rate and time left.
// On a terminal one line is redrawn; on a pipe nothing is printed unless JSON lines were asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace perigee {

enum class ProgressStyle { kAuto, kOff, kTerminal, kJson };

// "1.56 TB", "17.9 GB", "512 B" (decimal units, as disks and checkpoints are sold)
std::string format_bytes(std::uint64_t bytes);
// "3h 02m", "4m 10s", "12.3 s"
std::string format_duration(double seconds);

class Progress {
 public:
  // `stream` is not owned. kAuto means kTerminal if the stream is one, else kOff.
  Progress(std::string label, std::uint64_t total_bytes, ProgressStyle style = ProgressStyle::kAuto,
           std::FILE* stream = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Thread safe; prints at most five times a second.
  void add(std::uint64_t bytes);
  // Work that was already done before (a resumed run); counts for the total but not for the rate.
  void add_skipped(std::uint64_t bytes);
  // Shown behind the numbers, e.g. "shard 12/96".
  void set_detail(std::string detail);
  void finish();

 private:
  void print(bool last);
  double seconds_since_start() const;

  const std::string label_;
  const std::uint64_t total_;
  ProgressStyle style_;
  std::FILE* const stream_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_print_;
  std::uint64_t done_ = 0;
  std::uint64_t skipped_ = 0;
  std::string detail_;
  bool finished_ = false;
};

}  // namespace perigee
