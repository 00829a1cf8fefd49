// How fast one core turns MXFP4 into NVFP4 in memory, beside what one core can copy.
#pragma once

#include <string>
#include <vector>

namespace perigee {

struct KernelRate {
  std::string name;
  std::string unit;  // what a byte of the rate is, e.g. "output"
  double bytes_per_second = 0;
  double goal_bytes_per_second = 0;  // 0 where there is none
};

// Medians over about a second each, in buffers that fit the second-level cache: copying (the limit), the
// lossless cast, requantisation, FP8 blocks.
std::vector<KernelRate> measure_kernel_rates();

// What one core can read from memory, far beyond its caches: bytes per second of CPU time, median.
double measure_memory_read_rate();

}  // namespace perigee
