// How much memory a program may still use: what the kernel thinks is available, or less if a control group
// says so.
#pragma once

#include <cstdint>

namespace perigee {

// MemAvailable of /proc/meminfo, capped by what is left of the memory limit of this process's control group
// (version 2). Swap does not count: weights in swap are slower than no weights.
std::uint64_t available_memory_bytes();

}  // namespace perigee
