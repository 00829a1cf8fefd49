// What this machine can do at best, measured in the run that compares something with it: how fast threads
// read memory, and how many multiply-adds they do in registers. Deliberately no model of caches, clocks or
// instruction ports: a limit is what a loop without any other work reaches.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace perigee {

// Seconds (work_clock) for reading all of the memory once, in one contiguous part per thread.
double read_stream_seconds(std::span<const std::byte> memory, ThreadPool& pool);

struct ComputePeak {
  std::string name;            // "AVX2 FMA", "AVX-512 FMA", "BF16 dot"
  std::string backend;         // of make_ops(), that multiplies with it
  double macs_per_second = 0;  // multiply-adds of all threads together
};

// The fastest of the instructions that a backend may use: on some processors BF16 dots do fewer multiply-adds
// than FMA does. One round of some milliseconds; 0 for a backend that has none of them ("reference").
double measure_peak(const std::string& backend, ThreadPool& pool);

// Of all instructions that this machine has, slowest first; medians.
std::vector<ComputePeak> measure_compute_peaks(ThreadPool& pool, unsigned rounds);

}  // namespace perigee
