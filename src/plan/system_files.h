// What the kernel says about a machine, from /proc and /sys below a root that a test can make. A file that is
// not there, or not to be read, is a normal answer: containers hide much.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"

namespace perigee {

struct Mount {
  std::string device;  // "259:1", major and minor number
  std::filesystem::path point;
  std::string type;    // "ext4"
  std::string source;  // "/dev/nvme0n1p1"
};

class SystemFiles {
 public:
  explicit SystemFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}

  // `path` as on a real machine, "/proc/swaps".
  std::filesystem::path at(const std::string& path) const;
  bool has(const std::string& path) const;
  std::vector<std::string> lines(const std::string& path) const;   // empty if it cannot be read
  std::optional<std::string> line(const std::string& path) const;  // the first
  std::optional<std::uint64_t> number(const std::string& path) const;
  std::vector<std::string> names_in(const std::string& folder) const;  // ascending

  // Of /proc/meminfo, in bytes; `name` without its colon.
  std::optional<std::uint64_t> memory(const std::string& name) const;
  // base/memory.h, below this root.
  std::optional<MemoryLimit> memory_limit() const { return control_group_limit(root_); }
  // The mount that an absolute path lies in.
  std::optional<Mount> mount_of(const std::filesystem::path& path) const;

 private:
  std::filesystem::path root_;
};

}  // namespace perigee
