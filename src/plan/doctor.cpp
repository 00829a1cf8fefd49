#include "plan/doctor.h"

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/async_io.h"
#include "base/error.h"
#include "base/progress.h"
#include "compute/ops.h"

namespace perigee {
namespace {

constexpr std::uint64_t kLeastMemory = 2'000'000'000;
constexpr std::uint64_t kLittleMemory = 16'000'000'000;
// A checkpoint of K3 has 96 shards, which streaming keeps open.
constexpr std::uint64_t kLeastFiles = 256;

std::optional<std::uint64_t> limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return 0;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

const char* check_level_name(CheckLevel level) {
  switch (level) {
    case CheckLevel::kOk:
      return "ok";
    case CheckLevel::kWarn:
      return "warn";
    case CheckLevel::kFail:
      return "fail";
  }
  return "";
}

Check check_processor(std::span<const std::string> backends) {
  const std::string& best = backends.back();  // the slowest comes first
  Check check{"processor", CheckLevel::kOk,
              fmt::format("computes with {}, of {}", best, fmt::join(backends, ", ")), ""};
  if (best == "reference") {
    check.level = CheckLevel::kWarn;
    check.advice = "only the scalar definition runs here, some fifty times slower; use a processor with AVX2";
  }
  return check;
}

Check check_governor(const SystemFiles& system) {
  std::set<std::string> governors;
  for (const std::string& name : system.names_in("/sys/devices/system/cpu")) {
    const auto governor = system.line("/sys/devices/system/cpu/" + name + "/cpufreq/scaling_governor");
    if (governor) governors.insert(*governor);
  }
  if (governors.empty()) return {"clock", CheckLevel::kOk, "the kernel does not control it", ""};
  Check check{"clock", CheckLevel::kOk, fmt::format("governor {}", fmt::join(governors, ", ")), ""};
  const std::string driver =
      system.line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver").value_or("unknown");
  // The drivers of newer processors scale by load under this name, too.
  const bool scales_by_load = driver == "intel_pstate" || driver.starts_with("amd-pstate");
  if (governors.contains("powersave") && !scales_by_load) {
    check.level = CheckLevel::kWarn;
    check.advice = "powersave holds the lowest clock: cpupower frequency-set -g performance";
  }
  return check;
}

Check check_numa(const SystemFiles& system) {
  const std::string nodes = system.line("/sys/devices/system/node/online").value_or("0");
  if (nodes.find_first_of("-,") == std::string::npos) return {"NUMA", CheckLevel::kOk, "one node", ""};
  return {"NUMA", CheckLevel::kWarn, "nodes " + nodes,
          "memory of another node is slower: start perigee under numactl --interleave=all"};
}

Check check_memory(const SystemFiles& system) {
  const auto total = system.memory("MemTotal"), available = system.memory("MemAvailable");
  if (!total || !available) {
    return {"memory", CheckLevel::kWarn, "/proc/meminfo says nothing", "say how much to use with --ram"};
  }
  Check check{"memory", CheckLevel::kOk,
              fmt::format("{} available of {}", format_bytes(*available), format_bytes(*total)), ""};
  if (*available < kLeastMemory) {
    check.level = CheckLevel::kFail;
    check.advice = "end other programs: no model worth streaming fits";
  } else if (*available < kLittleMemory) {
    check.level = CheckLevel::kWarn;
    check.advice = "every token reads the trunk from memory; perigee inspect CKPT --plan says what fits";
  }
  return check;
}

Check check_control_group(const SystemFiles& system) {
  const auto limit = system.memory_limit();
  if (!limit) return {"memory limit", CheckLevel::kOk, "no control group sets one", ""};
  Check check{"memory limit", CheckLevel::kOk,
              fmt::format("{} by control groups of version {}", format_bytes(limit->bytes), limit->version),
              ""};
  const std::uint64_t available = system.memory("MemAvailable").value_or(0);
  if (limit->bytes < available) {
    check.level = CheckLevel::kWarn;
    check.advice =
        fmt::format("the machine has {} available; give the container more", format_bytes(available));
  }
  return check;
}

Check check_swap(const SystemFiles& system) {
  const std::size_t lines = system.lines("/proc/swaps").size();  // the first is a title
  if (lines < 2) return {"swap", CheckLevel::kOk, "off", ""};
  return {"swap", CheckLevel::kWarn,
          fmt::format("on, {} free of {}", format_bytes(system.memory("SwapFree").value_or(0)),
                      format_bytes(system.memory("SwapTotal").value_or(0))),
          "weights in swap are slower than streamed ones: swapoff -a, or --lock-memory"};
}

Check check_huge_pages(const SystemFiles& system) {
  const auto setting = system.line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!setting) {
    return {"huge pages", CheckLevel::kWarn, "this kernel has no transparent huge pages",
            "memory is read some percent slower in small pages"};
  }
  const std::size_t begin = setting->find('[') + 1;  // 0 if there is none
  const std::string chosen = setting->substr(begin, setting->find(']') - begin);
  if (chosen != "never") return {"huge pages", CheckLevel::kOk, chosen, ""};
  return {"huge pages", CheckLevel::kWarn, chosen,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

Check check_locked_memory(std::optional<std::uint64_t> limit_bytes) {
  if (!limit_bytes) return {"locked memory", CheckLevel::kOk, "unlimited", ""};
  return {"locked memory", CheckLevel::kWarn, format_bytes(*limit_bytes) + " may be locked",
          "for --lock-memory and for buffers that io_uring knows: ulimit -l unlimited, or memlock in "
          "/etc/security/limits.conf; as root it does not matter"};
}

Check check_open_files(std::uint64_t limit) {
  Check check{"open files", CheckLevel::kOk, fmt::format("{} at a time", limit), ""};
  if (limit < kLeastFiles) {
    check.level = CheckLevel::kFail;
    check.advice = "all shards of a checkpoint are open while experts are streamed: ulimit -n 1024";
  }
  return check;
}

Check check_async_io(const SystemFiles& system, const std::string& io_name) {
  if (io_name == "io_uring") return {"io_uring", CheckLevel::kOk, "works", ""};
  const auto disabled = system.number("/proc/sys/kernel/io_uring_disabled");
  return {"io_uring", CheckLevel::kWarn, "refused, so threads read: 3 to 5 times the CPU time per byte",
          disabled.value_or(0) != 0 ? "sysctl kernel.io_uring_disabled=0"
                                    : "the container's seccomp profile has to allow io_uring_setup"};
}

std::vector<Check> examine_machine(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail(ErrorCode::kNotFound, "{} is not a folder; doctor needs the one that experts will be read from",
         folder.string());
  }
  const SystemFiles system;
  const std::vector<std::string> backends = available_backends();
  return {check_processor(backends),
          check_governor(system),
          check_numa(system),
          check_memory(system),
          check_control_group(system),
          check_swap(system),
          check_huge_pages(system),
          check_locked_memory(limit_of(RLIMIT_MEMLOCK)),
          check_open_files(limit_of(RLIMIT_NOFILE).value_or(UINT64_MAX)),
          check_async_io(system, make_async_io()->name()),
          check_file_system(system, folder),
          check_direct_io(folder),
          check_drive(system, folder),
          check_free_space(folder)};
}

CheckLevel worst_level(std::span<const Check> checks) {
  CheckLevel worst = CheckLevel::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.level);
  return worst;
}

}  // namespace perigee
