// perigee bench stream: streaming of experts beside what arithmetic foretells and what the drive gives.
#include "cli/bench_stream.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/progress.h"
#include "bench/stream_bench.h"
#include "cli/bench_options.h"
#include "cli/choice.h"
#include "cli/model_options.h"
#include "cli/text_table.h"
#include "experts/expert_files.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr const char* kExamples =
    "Examples:\n"
    "  perigee synth slice --preset slice              a checkpoint whose experts are as large as K3's, 8 "
    "GB\n"
    "  perigee bench stream slice                      memory for 5, 20 and 60 % of its experts\n"
    "  perigee bench stream slice --no-multiply        the drive alone\n"
    "  perigee bench stream CKPT --trace k3.trace      what a model really asked for\n"
    "The prediction is that of perigee inspect --plan: the trace replayed through the cache policy, and the "
    "rates of the\n"
    "drive with 1, 2 and 4 reads under way, measured before and after each size. The trunk takes no part.";
constexpr double kGoal = 0.15;  // that a prediction may be off

struct StreamArguments {
  StreamBenchOptions bench;
  ModelOptions run;  // backend and threads
  bool json = false;
};

std::string seconds_text(double seconds) {
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

double error_of(const StreamRow& row) {
  return row.step_seconds > 0 ? row.predicted_step_seconds / row.step_seconds - 1 : 0;
}

std::string title_of(const StreamBenchResult& r) {
  return fmt::format(
      "{}: {} steps through {} layers of {} experts of {}; the most used tenth gets {:.0f} % of uses, {:.0f} "
      "% were "
      "used by the token before\n{}, {}\n",
      r.synthetic ? "SYNTHETIC routing, not a model's" : "recorded routing", r.tokens, r.layers, r.experts,
      format_bytes(r.expert_bytes), 100 * r.routing.popular_share, 100 * r.routing.overlap, r.io,
      r.backend.empty()
          ? "nothing multiplied"
          : fmt::format("{}, {} for one expert in memory", r.backend, seconds_text(r.expert_seconds)));
}

std::string stream_text(const StreamBenchResult& result) {
  TextTable table({{"experts in memory"},
                   {"found there", Align::kRight},
                   {"predicted", Align::kRight},
                   {"read a token", Align::kRight},
                   {"predicted", Align::kRight},
                   {"a token", Align::kRight},
                   {"predicted", Align::kRight},
                   {"off by", Align::kRight},
                   {"drive GB/s", Align::kRight},
                   {"its limit", Align::kRight},
                   {"reads under way", Align::kRight},
                   {"CPU s/GB", Align::kRight}});
  const auto bytes = [](double number) { return format_bytes(static_cast<std::uint64_t>(number)); };
  for (const StreamRow& row : result.rows) {
    table.add_row(
        {fmt::format("{} ({})", row.slots, format_bytes(row.slots * row.slot_bytes)),
         fmt::format("{:.1f} %", 100 * row.hit_rate), fmt::format("{:.1f} %", 100 * row.predicted_hit_rate),
         bytes(row.step_bytes), bytes(row.predicted_step_bytes), seconds_text(row.step_seconds),
         seconds_text(row.predicted_step_seconds), fmt::format("{:+.1f} %", 100 * error_of(row)),
         giga(row.disk_bytes_per_second), giga(row.limit_bytes_per_second),
         fmt::format("{:.1f}", row.reads_under_way), fmt::format("{:.3f}", row.cpu_seconds_per_gigabyte)});
  }
  return title_of(result) + table.text() +
         fmt::format("The goal is to be off by less than {:.0f} %.\n", 100 * kGoal);
}

json stream_json(const StreamBenchResult& result) {
  json rows = json::array();
  for (const StreamRow& row : result.rows) {
    rows.push_back({{"slots", row.slots},
                    {"slot_bytes", row.slot_bytes},
                    {"hit_rate", row.hit_rate},
                    {"predicted_hit_rate", row.predicted_hit_rate},
                    {"step_bytes", row.step_bytes},
                    {"predicted_step_bytes", row.predicted_step_bytes},
                    {"step_seconds", row.step_seconds},
                    {"predicted_step_seconds", row.predicted_step_seconds},
                    {"prediction_error", error_of(row)},
                    {"disk_bytes_per_second", row.disk_bytes_per_second},
                    {"limit_bytes_per_second", row.limit_bytes_per_second},
                    {"reads_under_way", row.reads_under_way},
                    {"cpu_seconds_per_gigabyte", row.cpu_seconds_per_gigabyte}});
  }
  return {{"synthetic", result.synthetic},
          {"io", result.io},
          {"backend", result.backend},
          {"layers", result.layers},
          {"experts", result.experts},
          {"expert_bytes", result.expert_bytes},
          {"tokens", result.tokens},
          {"expert_seconds", result.expert_seconds},
          {"popular_share", result.routing.popular_share},
          {"overlap", result.routing.overlap},
          {"goal", kGoal},
          {"rows", std::move(rows)}};
}

// 5, 20 and 60 % of the experts that there are.
std::vector<std::size_t> default_slots(const std::filesystem::path& folder) {
  const auto files = is_store(folder) ? open_store_experts(folder) : open_checkpoint_experts(folder);
  std::uint64_t experts = 0;
  for (std::uint64_t layer = 0; layer < files->layers(); ++layer)
    experts += files->has_experts(layer) ? files->experts() : 0;
  std::vector<std::size_t> slots;
  for (const double share : {0.05, 0.2, 0.6})
    slots.push_back(std::max<std::size_t>(1, std::lround(share * static_cast<double>(experts))));
  return slots;
}

void run_bench_stream(const StreamArguments& arguments, const CancelToken& cancel) {
  StreamBenchOptions options = arguments.bench;
  options.backend = arguments.run.backend;
  options.threads = arguments.run.threads;
  if (options.slots.empty()) options.slots = default_slots(options.folder);
  options.announce = [](const std::string& step) { log_debug("measuring {}", step); };
  const StreamBenchResult result = bench_stream(options, cancel);
  const std::string output = arguments.json ? stream_json(result).dump(2) + "\n" : stream_text(result);
  std::fwrite(output.data(), 1, output.size(), stdout);
}

}  // namespace

void register_bench_stream(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "stream",
      "Experts from a real folder: time, bytes and hits beside the prediction and the drive's limit");
  const auto arguments = std::make_shared<StreamArguments>();
  StreamBenchOptions& options = arguments->bench;
  options.synthetic.tokens = 60;
  command->add_option("CKPT", options.folder, "Checkpoint or store whose experts are read")->required();
  command
      ->add_option("--slots", options.slots,
                   "Experts that fit into memory; repeatable [5, 20 and 60 % of all]")
      ->type_name("N")
      ->check(CLI::Range(1U, 1U << 24))
      ->allow_extra_args(false);
  command->add_option("--trace", options.trace, "Trace that perigee run --trace wrote [routing is drawn]")
      ->type_name("FILE");
  command->add_option("--tokens", options.synthetic.tokens, "Tokens of drawn routing")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(2U, 1U << 20));
  command
      ->add_option("--skew", options.synthetic.skew, "Drawn: the r-th most popular expert has weight r^-SKEW")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 2.0));
  command
      ->add_option("--overlap", options.synthetic.overlap, "Drawn: share that the token before used as well")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.95));
  command->add_option("--warm-up", options.warm_up, "Share of the trace that is not counted")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9));
  add_choice(*command, "--cache-policy", options.policy,
             {{"popular", CachePolicyKind::kPopular},
              {"least-stale", CachePolicyKind::kLeastStale},
              {"lru", CachePolicyKind::kLru}},
             "Which experts stay");
  command->add_flag("--prefetch", options.prefetch, "Read ahead what a drawn trace says was foreseen");
  command->add_flag("--multiply,!--no-multiply", options.multiply, "Multiply with every expert [yes]");
  command->add_option("--limit-seconds", options.limit_seconds, "For measuring the drive, at each size")
      ->capture_default_str()
      ->check(CLI::Range(0.003, 60.0));
  add_backend_options(*command, arguments->run);
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer(kExamples);
  command->callback([arguments, &context] { run_bench_stream(*arguments, context.cancel); });
}

}  // namespace perigee
