#include "cli/bench_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/choice.h"
#include "compute/ops.h"

namespace perigee {

void add_rounds_option(CLI::App& command, unsigned& rounds) {
  command.add_option("--rounds", rounds, "Runs of each step; medians are shown")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 999));
}

void add_memory_option(CLI::App& command, double& gigabytes, const std::string& help) {
  command.add_option("--memory", gigabytes, help)->type_name("GB")->capture_default_str();
}

std::uint64_t memory_bytes(double gigabytes) {
  constexpr double kLeast = 1e-4, kMost = 1e6;
  if (!(gigabytes >= kLeast && gigabytes <= kMost))
    fail(ErrorCode::kUsage, "--memory {} must be a number of gigabytes from {} to {}", gigabytes, kLeast,
         kMost);
  const auto bytes = static_cast<std::uint64_t>(gigabytes * 1e9);
  const std::uint64_t available = available_memory_bytes();
  if (bytes > available) {
    fail(ErrorCode::kNoSpace, "--memory {} GB is more than the {:.1f} GB that are available; give less",
         gigabytes, static_cast<double>(available) / 1e9);
  }
  return bytes;
}

std::uint64_t MadeModelOptions::bytes() const {
  constexpr std::uint64_t kMost = 8'000'000'000;
  if (memory_gb) return memory_bytes(*memory_gb);
  return std::min(kMost, available_memory_bytes() / 2);
}

void add_made_model_options(CLI::App& command, MadeModelOptions& options) {
  CLI::Option* preset =
      add_choice(command, "--preset", options.preset,
                 {{"tiny", SynthPreset::kTiny}, {"small", SynthPreset::kSmall}, {"k3", SynthPreset::kK3}},
                 "Sizes of the model, as perigee synth has them");
  command
      .add_flag_callback(
          "--real-size", [&options] { options.preset = SynthPreset::kK3; },
          "K3's own sizes: the same as --preset k3")
      ->excludes(preset);
  add_choice(command, "--experts", options.experts,
             {{"mxfp4", WeightFormat::kMxfp4}, {"nvfp4", WeightFormat::kNvfp4}}, "Weights of the experts");
  command
      .add_option(
          "--memory", options.memory_gb,
          "Weights in memory, half of it experts; matrices share it in turn, so it has to be far larger "
          "than the caches [8, or half of what is available]")
      ->type_name("GB");
}

const char* preset_name(SynthPreset preset) {
  switch (preset) {
    case SynthPreset::kTiny:
      return "tiny";
    case SynthPreset::kSmall:
      return "small";
    case SynthPreset::kSlice:
      return "slice";
    case SynthPreset::kK3:
      return "k3";
  }
  return "";
}

void add_thread_list_option(CLI::App& command, std::vector<unsigned>& threads) {
  command.add_option("--threads", threads, "Numbers of threads, separated by commas [1 and all cores]")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(CLI::Range(1U, 4096U));
}

std::vector<unsigned> thread_counts(const std::vector<unsigned>& given) {
  if (!given.empty()) return given;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return cores > 1 ? std::vector<unsigned>{1, cores} : std::vector<unsigned>{1};
}

std::vector<std::string> backend_list(const std::vector<std::string>& given, bool reference) {
  std::vector<std::string> backends = given;
  if (given.empty()) {
    backends = available_backends();
    if (!reference && backends.size() > 1) std::erase(backends, "reference");
  }
  for (const std::string& backend : backends) (void)make_ops({Precision::kBf16, 1, backend});
  return backends;
}

std::function<void(const std::string&)> announcer(const CancelToken& cancel) {
  return [&cancel](const std::string& step) {
    cancel.check();
    log_debug("{}", step);
  };
}

std::string giga(double per_second) {
  return fmt::format("{:.2f}", per_second / 1e9);
}

double instruction_goal(std::string_view backend) {
  return backend == "avx2" ? 0.65 : 0.75;  // 16 registers leave less to keep the multipliers busy with
}

std::string fraction_text(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}

}  // namespace perigee
