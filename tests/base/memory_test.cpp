// What may still be used, on machines made of files.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace perigee {
namespace {

class Machine {
 public:
  Machine() {
    write("/proc/meminfo", "MemTotal: 65536000 kB\nMemFree: 1000 kB\nMemAvailable: 48000000 kB\n");
  }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() / path.substr(1);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::filesystem::path& root() const { return folder_.path(); }
  std::uint64_t available() const { return available_memory_bytes(root()); }

 private:
  test::TempDir folder_;
};

constexpr std::uint64_t kKernel = 48'000'000ULL * 1024;

TEST(AvailableMemory, IsWhatTheKernelSaysWithoutControlGroups) {
  EXPECT_EQ(Machine().available(), kKernel);
}

TEST(AvailableMemory, OfVersionTwoIsWhatTheLimitLeaves) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/shop/model\n");
  machine.write("/sys/fs/cgroup/shop/model/memory.max", "max\n");
  machine.write("/sys/fs/cgroup/shop/model/memory.current", "3000000000\n");
  EXPECT_EQ(machine.available(), kKernel);
  machine.write("/sys/fs/cgroup/shop/model/memory.max", "10000000000\n");
  EXPECT_EQ(machine.available(), 7'000'000'000U);
  machine.write("/sys/fs/cgroup/shop/model/memory.max", "2000000000\n");
  EXPECT_EQ(machine.available(), 0U);
}

TEST(AvailableMemory, OfVersionOneIsWhatTheLimitLeaves) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "5:cpuset:/\n4:memory:/box\n0::/\n");
  machine.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(machine.available(), kKernel);
  machine.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4000000000\n");
  machine.write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1500000000\n");
  EXPECT_EQ(machine.available(), 2'500'000'000U);
  EXPECT_EQ(control_group_limit(machine.root())->version, 1U);
}

TEST(AvailableMemory, OfVersionOneIsFoundBesideOtherControllers) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "4:cpu,memory:/box\n3:hugetlb,memoryless:/\n");
  machine.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4000000000\n");
  EXPECT_EQ(machine.available(), 4'000'000'000U);
}

TEST(AvailableMemory, IsThatOfTheTightestGroupAbove) {
  for (const auto& [line, folder, limit, used] :
       {std::tuple("0::/a/b", "/sys/fs/cgroup", "memory.max", "memory.current"),
        std::tuple("7:memory:/a/b", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                   "memory.usage_in_bytes")}) {
    const Machine machine;
    const auto set = [&, at = std::string(folder)](const std::string& group, const char* file,
                                                   const char* bytes) {
      machine.write(at + group + "/" + file, bytes);
    };
    machine.write("/proc/self/cgroup", line);
    set("/a/b", limit, "8000000000");
    set("/a/b", used, "1000000000");
    set("/a", limit, "9000000000");  // more, but others have used it
    set("/a", used, "5000000000");
    EXPECT_EQ(machine.available(), 4'000'000'000U) << line;
    EXPECT_EQ(control_group_limit(machine.root())->bytes, 9'000'000'000U) << line;
  }
}

// A container of version 1 sees the host's path and, mounted as the root, its own group.
TEST(AvailableMemory, IsThatOfTheMountWhereOnlyTheHostHasThePath) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "4:memory:/docker/4bcc\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000000\n");
  EXPECT_EQ(machine.available(), 4'000'000'000U);
}

TEST(AvailableMemory, CountsPagesOfFilesAsLeft) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/\n");
  machine.write("/sys/fs/cgroup/memory.max", "10000000000\n");
  machine.write("/sys/fs/cgroup/memory.current", "9000000000\n");
  machine.write("/sys/fs/cgroup/memory.stat",
                "anon 2000000000\nfile 7000000000\nshmem 1000000000\ninactive_anon 0\n"
                "inactive_file 5000000000\nactive_file 1000000000\n");
  EXPECT_EQ(machine.available(), 7'000'000'000U);

  machine.write("/proc/self/cgroup", "4:memory:/\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "10000000000\n");
  machine.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "9000000000\n");
  machine.write("/sys/fs/cgroup/memory/memory.stat",
                "cache 1\ninactive_file 1\nactive_file 1\ntotal_inactive_file 5000000000\n"
                "total_active_file 1000000000\n");
  EXPECT_EQ(machine.available(), 7'000'000'000U);
}

TEST(AvailableMemory, StaysBelowItsRoot) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/../../escape\nnonsense\n4:memory\n");
  machine.write("/escape/memory.max", "1\n");
  EXPECT_EQ(machine.available(), kKernel);
}

}  // namespace
}  // namespace perigee
