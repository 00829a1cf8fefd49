// What the checks say about machines that are made of files: containers, partitions, swap, old groups.
#include "plan/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A root of /proc and /sys.
class Machine {
 public:
  void write(const std::string& path, const std::string& text) const {
    const fs::path file = system().at(path);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  SystemFiles system() const { return SystemFiles(folder_.path()); }

 private:
  test::TempDir folder_;
};

void expect_level(const Check& check, CheckLevel level) {
  EXPECT_EQ(check.level, level) << check.name << ": " << check.found;
  EXPECT_EQ(check.advice.empty(), level == CheckLevel::kOk) << check.advice;
  EXPECT_FALSE(check.found.empty()) << check.name;
}

TEST(Doctor, AnEmptyRootIsNoReasonToFail) {
  const Machine machine;
  for (const Check& check : {check_governor(machine.system()), check_numa(machine.system()),
                             check_control_group(machine.system()), check_swap(machine.system())}) {
    expect_level(check, CheckLevel::kOk);
  }
  expect_level(check_memory(machine.system()), CheckLevel::kWarn);
  expect_level(check_huge_pages(machine.system()), CheckLevel::kWarn);
}

TEST(Doctor, NamesTheBackendThatIsUsed) {
  const std::vector<std::string> backends = {"reference", "avx2"};
  expect_level(check_processor(backends), CheckLevel::kOk);
  EXPECT_THAT(check_processor(backends).found, HasSubstr("computes with avx2"));
  expect_level(check_processor(std::span(backends).first(1)), CheckLevel::kWarn);
}

TEST(Doctor, PowersaveIsSlowOnlyWhereTheKernelMeansIt) {
  const Machine machine;
  const std::string folder = "/sys/devices/system/cpu/cpu0/cpufreq/";
  machine.write(folder + "scaling_governor", "powersave\n");
  machine.write(folder + "scaling_driver", "acpi-cpufreq\n");
  expect_level(check_governor(machine.system()), CheckLevel::kWarn);
  machine.write(folder + "scaling_driver", "intel_pstate\n");
  expect_level(check_governor(machine.system()), CheckLevel::kOk);
}

TEST(Doctor, SeesSeveralNodesOfMemory) {
  const Machine machine;
  machine.write("/sys/devices/system/node/online", "0\n");
  expect_level(check_numa(machine.system()), CheckLevel::kOk);
  machine.write("/sys/devices/system/node/online", "0-1\n");
  expect_level(check_numa(machine.system()), CheckLevel::kWarn);
}

TEST(Doctor, MemoryIsJudgedByWhatIsAvailable) {
  const Machine machine;
  machine.write("/proc/meminfo", "MemTotal:  65536000 kB\nMemFree: 1 kB\nMemAvailable:  48828125 kB\n");
  expect_level(check_memory(machine.system()), CheckLevel::kOk);
  EXPECT_THAT(check_memory(machine.system()).found, HasSubstr("50.0 GB"));
  machine.write("/proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable: 8000000 kB\n");
  expect_level(check_memory(machine.system()), CheckLevel::kWarn);
  machine.write("/proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable: 1000000 kB\n");
  expect_level(check_memory(machine.system()), CheckLevel::kFail);
}

TEST(Doctor, FindsTheLowestLimitOfTheGroupsAbove) {
  const Machine machine;
  machine.write("/proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable: 48000000 kB\n");
  machine.write("/proc/self/cgroup", "0::/shop/model\n");
  machine.write("/sys/fs/cgroup/shop/model/memory.max", "max\n");
  expect_level(check_control_group(machine.system()), CheckLevel::kOk);
  machine.write("/sys/fs/cgroup/shop/memory.max", "8000000000\n");
  expect_level(check_control_group(machine.system()), CheckLevel::kWarn);
  ASSERT_TRUE(machine.system().memory_limit());
  EXPECT_EQ(machine.system().memory_limit()->bytes, 8'000'000'000U);
  machine.write("/sys/fs/cgroup/shop/memory.max", "80000000000\n");
  expect_level(check_control_group(machine.system()), CheckLevel::kOk);
}

TEST(Doctor, WarnsOfALimitOfVersionOne) {
  const Machine machine;
  machine.write("/proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable: 48000000 kB\n");
  machine.write("/proc/self/cgroup", "5:cpuset:/\n4:memory:/box\n0::/\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect_level(check_control_group(machine.system()), CheckLevel::kOk);
  machine.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4000000000\n");
  const Check check = check_control_group(machine.system());
  expect_level(check, CheckLevel::kWarn);
  EXPECT_THAT(check.found, HasSubstr("version 1"));
}

TEST(Doctor, WarnsOfSwap) {
  const Machine machine;
  machine.write("/proc/swaps", "Filename Type Size Used Priority\n");
  expect_level(check_swap(machine.system()), CheckLevel::kOk);
  machine.write("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 2097148 0 -2\n");
  expect_level(check_swap(machine.system()), CheckLevel::kWarn);
}

TEST(Doctor, ReadsTheChosenKindOfHugePages) {
  const Machine machine;
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  machine.write(path, "always [madvise] never\n");
  EXPECT_EQ(check_huge_pages(machine.system()).found, "madvise");
  expect_level(check_huge_pages(machine.system()), CheckLevel::kOk);
  machine.write(path, "always madvise [never]\n");
  expect_level(check_huge_pages(machine.system()), CheckLevel::kWarn);
}

TEST(Doctor, KnowsTheLimitsOfAProcess) {
  expect_level(check_locked_memory(std::nullopt), CheckLevel::kOk);
  expect_level(check_locked_memory(8'388'608), CheckLevel::kWarn);
  expect_level(check_open_files(1024), CheckLevel::kOk);
  expect_level(check_open_files(64), CheckLevel::kFail);
}

TEST(Doctor, SaysWhoForbidsIoUring) {
  const Machine machine;
  expect_level(check_async_io(machine.system(), "io_uring"), CheckLevel::kOk);
  EXPECT_THAT(check_async_io(machine.system(), "threads").advice, HasSubstr("seccomp"));
  machine.write("/proc/sys/kernel/io_uring_disabled", "2\n");
  EXPECT_THAT(check_async_io(machine.system(), "threads").advice, HasSubstr("kernel.io_uring_disabled=0"));
}

// The folder of a test, mounted as a line of mountinfo says.
class MountedFolder : public ::testing::Test {
 protected:
  void mount(const std::string& device, const std::string& type, const std::string& source) const {
    machine_.write("/proc/self/mountinfo", "27 1 254:0 / / rw shared:1 - rootfs none rw\n28 27 " + device +
                                               " / " + fs::canonical(folder_.path()).string() +
                                               " rw,relatime - " + type + " " + source + " rw\n29 27 9:9 / " +
                                               fs::canonical(folder_.path()).string() +
                                               "-other rw - nfs x rw\n");
  }
  Machine machine_;
  test::TempDir folder_;
};

TEST_F(MountedFolder, FileSystemsThatAreNoLocalDriveAreWarnedOf) {
  mount("259:1", "ext4", "/dev/nvme0n1p1");
  expect_level(check_file_system(machine_.system(), folder_.path()), CheckLevel::kOk);
  EXPECT_EQ(check_file_system(machine_.system(), folder_.path()).found, "ext4 on /dev/nvme0n1p1");
  for (const std::string type : {"nfs4", "fuse.sshfs", "tmpfs", "overlay"}) {
    mount("259:1", type, "somewhere");
    expect_level(check_file_system(machine_.system(), folder_.path()), CheckLevel::kWarn);
  }
}

TEST_F(MountedFolder, TheDriveOfAPartitionIsAsked) {
  mount("259:1", "ext4", "/dev/nvme0n1p1");
  expect_level(check_drive(machine_.system(), folder_.path()), CheckLevel::kOk);  // /sys says nothing
  machine_.write("/sys/block/nvme0n1/queue/rotational", "0\n");
  machine_.write("/sys/block/nvme0n1/device/model", "Fast 4TB   \n");
  machine_.write("/sys/block/nvme0n1/device/hwmon3/temp1_input", "41850\n");
  machine_.write("/sys/block/nvme0n1/nvme0n1p1/partition", "1\n");
  fs::create_directories(machine_.system().at("/sys/dev/block"));
  fs::create_directory_symlink("../../block/nvme0n1/nvme0n1p1", machine_.system().at("/sys/dev/block/259:1"));
  expect_level(check_drive(machine_.system(), folder_.path()), CheckLevel::kOk);
  EXPECT_EQ(check_drive(machine_.system(), folder_.path()).found, "solid state, Fast 4TB, 41 °C");
  machine_.write("/sys/block/nvme0n1/device/hwmon3/temp1_input", "78000\n");
  expect_level(check_drive(machine_.system(), folder_.path()), CheckLevel::kWarn);
  machine_.write("/sys/block/nvme0n1/device/hwmon3/temp1_input", "30000\n");
  machine_.write("/sys/block/nvme0n1/queue/rotational", "1\n");
  EXPECT_THAT(check_drive(machine_.system(), folder_.path()).found, HasSubstr("moving heads"));
  expect_level(check_drive(machine_.system(), folder_.path()), CheckLevel::kWarn);
}

TEST_F(MountedFolder, AVirtualDriveIsNotTakenForOneWithHeads) {
  mount("254:0", "ext4", "/dev/vda");
  machine_.write("/sys/devices/pci/virtio1/block/vda/queue/rotational", "1\n");
  fs::create_directories(machine_.system().at("/sys/dev/block"));
  fs::create_directory_symlink("../../devices/pci/virtio1/block/vda",
                               machine_.system().at("/sys/dev/block/254:0"));
  expect_level(check_drive(machine_.system(), folder_.path()), CheckLevel::kOk);
}

TEST_F(MountedFolder, BlanksInAMountPointAreUnderstood) {
  machine_.write("/proc/self/mountinfo", "28 27 8:1 / /mnt/my\\040disk rw - xfs /dev/sda1 rw\n");
  const auto mount = machine_.system().mount_of("/mnt/my disk/models");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->type, "xfs");
  EXPECT_EQ(mount->device, "8:1");
  EXPECT_FALSE(machine_.system().mount_of("/mnt/my diskette"));
}

TEST(Doctor, ExaminesThisMachine) {
  const test::TempDir folder;
  const std::vector<Check> checks = examine_machine(folder.path());
  EXPECT_EQ(checks.size(), 14U);
  EXPECT_THAT(fs::directory_iterator(folder.path()) == fs::directory_iterator(), true)
      << "leaves nothing behind";
  EXPECT_THROW(examine_machine(folder / "absent"), Error);
}

TEST(Doctor, TheWorstLevelCounts) {
  const std::vector<Check> checks = {
      {"a", CheckLevel::kOk, "", ""}, {"b", CheckLevel::kFail, "", ""}, {"c", CheckLevel::kWarn, "", ""}};
  EXPECT_EQ(worst_level(checks), CheckLevel::kFail);
  EXPECT_EQ(worst_level(std::span(checks).first(1)), CheckLevel::kOk);
}

}  // namespace
}  // namespace perigee
