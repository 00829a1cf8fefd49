#include "base/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace perigee {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t number_in(const std::filesystem::path& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : otherwise;  // "max" is no number
}

std::uint64_t kernel_available() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return kUnlimited;
}

// The control group of this process: "0::/path" in /proc/self/cgroup.
std::filesystem::path control_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return std::filesystem::path("/sys/fs/cgroup") / line.substr(4);
  }
  return {};
}

}  // namespace

std::uint64_t available_memory_bytes() {
  std::uint64_t available = kernel_available();
  const std::filesystem::path group = control_group();
  if (group.empty()) return available;
  const std::uint64_t limit = number_in(group / "memory.max", kUnlimited);
  const std::uint64_t used = number_in(group / "memory.current", 0);
  return std::min(available, limit == kUnlimited ? kUnlimited : limit - std::min(limit, used));
}

}  // namespace perigee
