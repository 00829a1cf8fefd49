#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// What the kernel writes where version 1 has no limit: the largest number of whole pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

// How a version of control groups calls its files, and the entries of memory.stat for file pages.
struct Hierarchy {
  unsigned version;
  const char* folder;
  const char* limit;
  const char* used;
  std::string_view active_file, inactive_file;
};
constexpr Hierarchy kSecond = {
    2, "sys/fs/cgroup", "memory.max", "memory.current", "active_file", "inactive_file"};
constexpr Hierarchy kFirst = {1,
                              "sys/fs/cgroup/memory",
                              "memory.limit_in_bytes",
                              "memory.usage_in_bytes",
                              "total_active_file",
                              "total_inactive_file"};

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;  // "max" is no number
  return number;
}

std::uint64_t kernel_available(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return kUnlimited;
}

std::uint64_t file_pages(const Hierarchy& hierarchy, const fs::path& group) {
  std::ifstream file(group / "memory.stat");
  std::uint64_t sum = 0;
  std::string name;
  for (std::uint64_t bytes = 0; file >> name >> bytes;) {
    if (name == hierarchy.active_file || name == hierarchy.inactive_file) sum += bytes;
  }
  return sum;
}

std::optional<MemoryLimit> limit_of(const Hierarchy& hierarchy, const fs::path& group) {
  const auto limit = number_in(group / hierarchy.limit);
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const std::uint64_t used = number_in(group / hierarchy.used).value_or(0);
  const std::uint64_t needed = used - std::min(used, file_pages(hierarchy, group));
  return MemoryLimit{*limit, *limit - std::min(*limit, needed), hierarchy.version};
}

// "0::/path" is a group of version 2, "4:memory:/path" or "4:cpu,memory:/path" one of version 1.
const Hierarchy* hierarchy_of(std::string_view controllers) {
  if (controllers.empty()) return &kSecond;
  while (!controllers.empty()) {
    const std::string_view name = controllers.substr(0, controllers.find(','));
    if (name == "memory") return &kFirst;
    controllers.remove_prefix(std::min(name.size() + 1, controllers.size()));
  }
  return nullptr;
}

}  // namespace

std::optional<MemoryLimit> control_group_limit(const fs::path& root) {
  std::optional<MemoryLimit> least;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line.find("..") != std::string::npos)
      continue;
    const Hierarchy* hierarchy = hierarchy_of(std::string_view(line).substr(first + 1, second - first - 1));
    if (hierarchy == nullptr) continue;
    // In a container the path may be one that only the host has: then the root of the mount is its group.
    for (fs::path group = line.substr(second + 1);; group = group.parent_path()) {
      const auto limit = limit_of(*hierarchy, root / hierarchy->folder / group.relative_path());
      if (limit && (!least || limit->left < least->left)) least = limit;
      if (!group.has_relative_path()) break;
    }
  }
  return least;
}

std::uint64_t available_memory_bytes(const fs::path& root) {
  const auto limit = control_group_limit(root);
  return std::min(kernel_available(root), limit ? limit->left : kUnlimited);
}

}  // namespace perigee
