// How much memory a program may still use: what the kernel thinks is available, or less if a control group
// says so. Read below a root that a test can make.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace perigee {

struct MemoryLimit {
  std::uint64_t bytes = 0;
  std::uint64_t left = 0;  // of them; file pages can be dropped and count as left
  unsigned version = 0;    // of the control groups that it belongs to
};

// Of this process's control groups and those above them, of either version, the limit that leaves least.
std::optional<MemoryLimit> control_group_limit(const std::filesystem::path& root = "/");

// MemAvailable of /proc/meminfo, capped by what the control groups leave. Swap does not count: weights in
// swap are slower than no weights.
std::uint64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace perigee
