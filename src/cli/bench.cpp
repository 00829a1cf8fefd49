// perigee bench: rates beside this machine's own limits, measured in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "bench/convert_bench.h"
#include "bench/kernel_rates.h"
#include "cli/bench_cache.h"
#include "cli/bench_decode.h"
#include "cli/bench_kernels.h"
#include "cli/bench_machine.h"
#include "cli/bench_model.h"
#include "cli/bench_prefill.h"
#include "cli/bench_serve.h"
#include "cli/bench_stream.h"
#include "cli/bench_text.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "synth/synth.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct BenchArguments {
  fs::path source;
  fs::path work = fs::temp_directory_path();
  std::string convert_options;
  unsigned rounds = 3;
  bool kernels_only = false;
  bool json = false;
};

std::string rate_text(double bytes_per_second) {
  return fmt::format("{:.2f} GB/s", bytes_per_second / 1e9);
}

void print_kernels(const std::vector<KernelRate>& rates) {
  TextTable table({{"one core, in cache"},
                   {"rate", Align::kRight},
                   {"of the limit", Align::kRight},
                   {"goal", Align::kRight}});
  for (const KernelRate& rate : rates) {
    table.add_row({fmt::format("{} ({})", rate.name, rate.unit), rate_text(rate.bytes_per_second),
                   percent(rate.bytes_per_second, rates.front().bytes_per_second),
                   rate.goal_bytes_per_second > 0 ? rate_text(rate.goal_bytes_per_second) : ""});
  }
  fmt::print("{}\n", table.text());
}

std::uint64_t peak_rss(const MeasuredStep& step) {
  std::uint64_t peak = 0;
  for (const ChildCost& run : step.runs) peak = std::max(peak, run.peak_rss_bytes);
  return peak;
}

double median_cpu_seconds(const MeasuredStep& step) {
  std::vector<double> seconds;
  for (const ChildCost& run : step.runs) seconds.push_back(run.cpu_seconds);
  std::ranges::sort(seconds);
  return seconds.empty() ? 0 : seconds[seconds.size() / 2];
}

void add_step(TextTable& table, const MeasuredStep& step, const MeasuredStep& limit, double bytes) {
  const double seconds = step.median_seconds();
  table.add_row({step.name, format_duration(seconds), rate_text(bytes / seconds),
                 percent(limit.median_seconds(), seconds),
                 fmt::format("{:.2f} s/GB", median_cpu_seconds(step) / (bytes / 1e9)),
                 format_bytes(peak_rss(step))});
}

void print_conversion(const ConvertBenchResult& result) {
  const auto bytes = static_cast<double>(result.source_bytes);
  TextTable table({{fmt::format("{} of source, cold cache, median of {}", format_bytes(result.source_bytes),
                                result.copy.runs.size())},
                   {"time", Align::kRight},
                   {"source bytes", Align::kRight},
                   {"of the limit", Align::kRight},
                   {"CPU", Align::kRight},
                   {"peak memory", Align::kRight}});
  add_step(table, result.copy, result.copy, bytes);
  add_step(table, result.convert, result.copy, bytes);
  table.add_rule();
  add_step(table, result.copy_compare, result.copy_compare, bytes);
  add_step(table, result.convert_verify, result.copy_compare, bytes);
  fmt::print("{}", table.text());
}

json step_to_json(const MeasuredStep& step) {
  json runs = json::array();
  for (const ChildCost& run : step.runs) {
    runs.push_back({{"wall_seconds", run.wall_seconds},
                    {"cpu_seconds", run.cpu_seconds},
                    {"peak_rss_bytes", run.peak_rss_bytes}});
  }
  return {{"name", step.name}, {"median_seconds", step.median_seconds()}, {"runs", std::move(runs)}};
}

json kernels_to_json(const std::vector<KernelRate>& rates) {
  json list = json::array();
  for (const KernelRate& rate : rates) {
    list.push_back({{"name", rate.name},
                    {"unit", rate.unit},
                    {"bytes_per_second", rate.bytes_per_second},
                    {"goal_bytes_per_second", rate.goal_bytes_per_second}});
  }
  return list;
}

// A checkpoint of K3's widths, made for the measurement and removed after it.
class TemporarySource {
 public:
  TemporarySource(const fs::path& work, const CancelToken& cancel) : path_(work / "perigee-bench-source") {
    SynthOptions options;
    options.preset = SynthPreset::kSlice;
    log_info("making a checkpoint of about 8 GB in {}", path_.string());
    make_checkpoint(path_, options, &cancel, ProgressStyle::kAuto);
  }
  ~TemporarySource() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporarySource(const TemporarySource&) = delete;
  TemporarySource& operator=(const TemporarySource&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

ConvertBenchOptions bench_options(const BenchArguments& arguments, const CancelToken& cancel) {
  ConvertBenchOptions options;
  options.program = fs::read_symlink("/proc/self/exe");
  options.work = arguments.work;
  options.rounds = arguments.rounds;
  std::istringstream words(arguments.convert_options);
  for (std::string word; words >> word;) options.convert_options.push_back(word);
  options.announce = [&cancel](const std::string& step) {
    cancel.check();
    log_info("running {}", step);
  };
  return options;
}

int bench_convert(const BenchArguments& arguments, const CancelToken& cancel) {
  const std::vector<KernelRate> kernels = measure_kernel_rates();
  if (!arguments.json) print_kernels(kernels);
  json document = {{"kernels", kernels_to_json(kernels)}};
  if (!arguments.kernels_only) {
    std::optional<TemporarySource> made;
    if (arguments.source.empty()) made.emplace(arguments.work, cancel);
    ConvertBenchOptions options = bench_options(arguments, cancel);
    options.source = made ? made->path() : arguments.source;
    const ConvertBenchResult result = bench_conversion(options);
    if (!arguments.json) print_conversion(result);
    document["source_bytes"] = result.source_bytes;
    document["steps"] = {step_to_json(result.copy), step_to_json(result.convert),
                         step_to_json(result.copy_compare), step_to_json(result.convert_verify)};
  }
  if (arguments.json) fmt::print("{}\n", document.dump(2));
  return kExitLossless;
}

}  // namespace

void register_bench(CLI::App& app, CommandContext& context) {
  CLI::App* bench = app.add_subcommand("bench", "Measure rates beside this machine's own limits");
  bench->require_subcommand(1);
  CLI::App* command = bench->add_subcommand(
      "convert", "Conversion: kernels on one core, and whole runs in turn with cp and cmp of the same files");
  const auto arguments = std::make_shared<BenchArguments>();
  command->add_option("--source", arguments->source,
                      "Checkpoint to convert; default: one of about 8 GB made for this");
  command
      ->add_option("--work", arguments->work, "Folder on the disk to measure; needs twice the source's space")
      ->capture_default_str();
  command->add_option("--convert-options", arguments->convert_options,
                      "More options for perigee convert, e.g. \"--layout compressed-tensors --jobs 1\"");
  command->add_option("--rounds", arguments->rounds, "Runs of each step; medians are shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 99));
  command->add_flag("--kernels", arguments->kernels_only, "Only the kernels in memory, no disk");
  command->add_flag("--json", arguments->json, "Print every run as JSON");
  command->callback(
      [arguments, &context] { context.exit_status = bench_convert(*arguments, context.cancel); });
  register_bench_text(*bench, context);
  register_bench_kernels(*bench, context);
  register_bench_machine(*bench, context);
  register_bench_stream(*bench, context);
  register_bench_cache(*bench, context);
  register_bench_decode(*bench, context);
  register_bench_prefill(*bench, context);
  register_bench_model(*bench, context);
  register_bench_serve(*bench, context);
}

}  // namespace perigee
