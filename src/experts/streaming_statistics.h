// What streaming did so far. Counts of experts are of those that steps asked for, each step's layer counting
// an expert once.
#pragma once

#include <cstdint>

namespace perigee {

struct StreamingStatistics {
  std::uint64_t slots = 0;       // places for experts in memory
  std::uint64_t slot_bytes = 0;  // of one

  std::uint64_t asked = 0;            // experts; the sum of the next five
  std::uint64_t hits_pinned = 0;      // present, of the popular set
  std::uint64_t hits_pool = 0;        // present for another reason
  std::uint64_t hits_prefetch = 0;    // present only because they were foreseen
  std::uint64_t joined = 0;           // being read already, foreseen or for another step
  std::uint64_t misses = 0;           // had to be read
  std::uint64_t foreseen = 0;         // experts that were announced for a layer that came
  std::uint64_t foreseen_needed = 0;  // of them, those that it asked for
  std::uint64_t foreseen_asked = 0;   // what those layers asked for in all

  std::uint64_t reads = 0;           // finished, all kinds
  std::uint64_t bytes_demand = 0;    // of experts read because they were asked for
  std::uint64_t bytes_prefetch = 0;  // because they were foreseen, or popular at the start
  std::uint64_t bytes_used = 0;      // of all experts asked for, wherever they came from
  std::uint64_t retries = 0;         // reads done again after an error or damage
  std::uint64_t failures = 0;        // experts given up
  std::uint64_t checked = 0;         // checksums compared
  std::uint64_t reading = 0;         // reads under way now

  double wait_seconds = 0;  // of steps, for an expert
  double disk_seconds = 0;  // in which at least one read was under way

  // What was done after `before`.
  StreamingStatistics since(const StreamingStatistics& before) const {
    StreamingStatistics difference = *this;
    for (std::uint64_t StreamingStatistics::*count :
         {&StreamingStatistics::asked, &StreamingStatistics::hits_pinned, &StreamingStatistics::hits_pool,
          &StreamingStatistics::hits_prefetch, &StreamingStatistics::joined, &StreamingStatistics::misses,
          &StreamingStatistics::foreseen, &StreamingStatistics::foreseen_needed,
          &StreamingStatistics::foreseen_asked, &StreamingStatistics::reads,
          &StreamingStatistics::bytes_demand, &StreamingStatistics::bytes_prefetch,
          &StreamingStatistics::bytes_used, &StreamingStatistics::retries, &StreamingStatistics::failures,
          &StreamingStatistics::checked})
      difference.*count -= before.*count;
    difference.wait_seconds -= before.wait_seconds;
    difference.disk_seconds -= before.disk_seconds;
    return difference;
  }

  double disk_bytes_per_second() const {
    return disk_seconds > 0 ? static_cast<double>(bytes_demand + bytes_prefetch) / disk_seconds : 0;
  }
  double hit_rate() const {
    const std::uint64_t hits = hits_pinned + hits_pool + hits_prefetch;
    return asked > 0 ? static_cast<double>(hits) / static_cast<double>(asked) : 0;
  }
  // The share of a layer's experts that was foreseen.
  double recall() const {
    return foreseen_asked > 0 ? static_cast<double>(foreseen_needed) / static_cast<double>(foreseen_asked)
                              : 0;
  }
};

}  // namespace perigee
