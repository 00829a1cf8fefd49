#include "cli/bench_kernels.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/matrix_bench.h"
#include "cli/bench_options.h"
#include "cli/choice.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr const char* kExamples =
    "Examples:\n"
    "  perigee bench kernels                                     K3's shapes, every backend, 1 thread and "
    "all\n"
    "  perigee bench kernels --format mxfp4 --backend avx2       one format, one instruction set\n"
    "  perigee bench kernels --shape 1024x1024 --tokens 1 --json a shape of your own, for programs\n"
    "The limit of a row is what the same threads read from the same memory in alternating rounds, or, where "
    "it\n"
    "is lower, what the instructions of the backend multiply in registers.";

enum class FormatChoice { kAll, kBf16, kMxfp4, kNvfp4 };

struct KernelArguments {
  FormatChoice format = FormatChoice::kAll;
  std::string shape;
  std::vector<std::string> backends;
  std::vector<unsigned> threads;
  std::vector<std::size_t> tokens = {1, 2, 4, 8};
  double memory_gb = 1;
  unsigned rounds = 5;
  bool reference = false;
  bool json = false;
};

bool wanted(FormatChoice choice, WeightFormat format) {
  switch (choice) {
    case FormatChoice::kAll:
      return true;
    case FormatChoice::kBf16:
      return format == WeightFormat::kBf16;
    case FormatChoice::kMxfp4:
      return format == WeightFormat::kMxfp4;
    case FormatChoice::kNvfp4:
      return format == WeightFormat::kNvfp4;
  }
  return false;
}

// "3072x3584", for every format.
std::vector<MatrixCase> cases_of_shape(const std::string& text) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::size_t rows = 0, columns = 0;
  char cross = 0;
  std::istringstream stream(text);
  stream >> rows >> cross >> columns;
  const bool whole = !stream.fail() && stream.peek() == std::char_traits<char>::eof();
  if (!whole || cross != 'x' || rows == 0 || rows > kMost || columns == 0 || columns > kMost ||
      columns % 32 != 0) {
    fail(ErrorCode::kUsage, "--shape {}: must be ROWSxCOLUMNS, up to {} each, columns a multiple of 32", text,
         kMost);
  }
  std::vector<MatrixCase> cases;
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4, WeightFormat::kBf16})
    cases.push_back({"matrix", format, rows, columns});
  return cases;
}

MatrixBenchOptions bench_options(const KernelArguments& arguments, const CancelToken& cancel) {
  MatrixBenchOptions options;
  options.cases = arguments.shape.empty() ? k3_matrix_cases() : cases_of_shape(arguments.shape);
  std::erase_if(options.cases, [&](const MatrixCase& one) { return !wanted(arguments.format, one.format); });
  options.backends = backend_list(arguments.backends, arguments.reference);
  options.threads = thread_counts(arguments.threads);
  options.batches = arguments.tokens;
  options.memory_bytes = memory_bytes(arguments.memory_gb);
  options.rounds = arguments.rounds;
  options.announce = announcer(cancel);
  return options;
}

double goal(const MatrixRate& rate) {
  return rate.bound_by_memory ? kMemoryGoal : instruction_goal(rate.backend);
}

void print_result(const MatrixBenchOptions& options, const MatrixBenchResult& result) {
  for (std::size_t i = 0; i < options.cases.size(); ++i) {
    const MatrixCase& shape = options.cases[i];
    TextTable table({{fmt::format("{} [{}, {}] {}", shape.name, shape.rows, shape.columns,
                                  weight_format_name(shape.format))},
                     {"threads", Align::kRight},
                     {"tokens", Align::kRight},
                     {"limit GB/s", Align::kRight},
                     {"set by"},
                     {"measured GB/s", Align::kRight},
                     {"GMAC/s", Align::kRight},
                     {"of the limit", Align::kRight},
                     {"goal", Align::kRight}});
    for (const MatrixRate& rate : result.rates) {
      if (rate.matrix != i) continue;
      table.add_row({rate.backend, std::to_string(rate.threads), std::to_string(rate.batch),
                     giga(rate.limit_bytes_per_second), rate.bound_by_memory ? "memory" : "instructions",
                     giga(rate.bytes_per_second), fmt::format("{:.1f}", rate.macs_per_second / 1e9),
                     fraction_text(rate.of_limit), fraction_text(goal(rate))});
    }
    fmt::print("{}\n", table.text());
  }
  for (const auto& [threads, peaks] : result.peaks) {
    for (const ComputePeak& peak : peaks) {
      fmt::print("{} thread{}: {} {:.1f} GMAC/s\n", threads, plural(threads), peak.name,
                 peak.macs_per_second / 1e9);
    }
  }
}

json result_to_json(const MatrixBenchOptions& options, const MatrixBenchResult& result) {
  json rows = json::array();
  for (const MatrixRate& rate : result.rates) {
    const MatrixCase& shape = options.cases[rate.matrix];
    rows.push_back({{"matrix", shape.name},
                    {"format", weight_format_name(shape.format)},
                    {"shape", {shape.rows, shape.columns}},
                    {"backend", rate.backend},
                    {"threads", rate.threads},
                    {"tokens", rate.batch},
                    {"bytes_per_second", rate.bytes_per_second},
                    {"macs_per_second", rate.macs_per_second},
                    {"stream_bytes_per_second", rate.stream_bytes_per_second},
                    {"limit_bytes_per_second", rate.limit_bytes_per_second},
                    {"limit", rate.bound_by_memory ? "memory" : "instructions"},
                    {"of_limit", rate.of_limit},
                    {"goal", goal(rate)}});
  }
  json peaks = json::array();
  for (const auto& [threads, measured] : result.peaks) {
    for (const ComputePeak& peak : measured) {
      peaks.push_back({{"threads", threads}, {"name", peak.name}, {"macs_per_second", peak.macs_per_second}});
    }
  }
  return {{"rates", std::move(rows)},
          {"peaks", std::move(peaks)},
          {"memory_bytes", options.memory_bytes},
          {"rounds", options.rounds}};
}

int run_bench_kernels(const KernelArguments& arguments, const CancelToken& cancel) {
  const MatrixBenchOptions options = bench_options(arguments, cancel);
  const MatrixBenchResult result = bench_matrices(options);
  if (arguments.json) {
    fmt::print("{}\n", result_to_json(options, result).dump(2));
  } else {
    print_result(options, result);
  }
  return kExitLossless;
}

}  // namespace

void register_bench_kernels(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "kernels", "Matrices of K3's shapes times a few tokens, beside a reading of the same memory");
  const auto arguments = std::make_shared<KernelArguments>();
  command->footer(kExamples);
  add_choice(*command, "--format", arguments->format,
             {{"all", FormatChoice::kAll},
              {"bf16", FormatChoice::kBf16},
              {"mxfp4", FormatChoice::kMxfp4},
              {"nvfp4", FormatChoice::kNvfp4}},
             "Weights to measure");
  command->add_option("--shape", arguments->shape, "One shape instead of K3's")->type_name("ROWSxCOLUMNS");
  command->add_option("--backend", arguments->backends, "Instruction sets [all but the reference]")
      ->type_name("NAME,...")
      ->delimiter(',');
  command->add_flag("--reference", arguments->reference, "Also the scalar definition, which is slow");
  add_thread_list_option(*command, arguments->threads);
  command->add_option("--tokens", arguments->tokens, "Tokens multiplied at once, separated by commas")
      ->type_name("N,...")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{65536}));
  add_memory_option(*command, arguments->memory_gb, "Weights; far more than the caches hold");
  add_rounds_option(*command, arguments->rounds);
  command->add_flag("--json", arguments->json, "Print the rates as JSON");
  command->callback(
      [arguments, &context] { context.exit_status = run_bench_kernels(*arguments, context.cancel); });
}

}  // namespace perigee
