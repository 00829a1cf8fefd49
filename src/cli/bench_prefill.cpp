#include "cli/bench_prefill.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/dense_products.h"
#include "bench/prefill_bench.h"
#include "cli/bench_options.h"
#include "cli/model_options.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr const char* kExamples =
    "Examples:\n"
    "  perigee bench prefill --real-size                  64, 256 and 1024 tokens through a KDA and an MLA "
    "layer\n"
    "  perigee bench prefill --real-size --tokens 4096    one long prompt\n"
    "  perigee bench prefill --real-size --tokens 256 --context 60000    the next piece of a very long one\n"
    "The weights are random; what runs is the model's own forward pass. The limit is what the backend's\n"
    "instructions multiply in registers. oneDNN's products have dense weights that are already laid out as "
    "it\n"
    "likes them and are the same ones every time.";

struct PrefillArguments {
  MadeModelOptions made;
  ModelOptions run;  // backend and threads
  std::vector<std::size_t> tokens = {64, 256, 1024};
  std::size_t context = 0;
  unsigned rounds = 3;
  bool json = false;
};

std::string giga_macs(double per_second) {
  return fmt::format("{:.1f}", per_second / 1e9);
}

void print_parts(const PrefillArguments& arguments, const PrefillBenchResult& result) {
  const std::string after = arguments.context == 0 ? "" : fmt::format(" after {} others", arguments.context);
  TextTable table({{fmt::format("{}{}, {}, {} thread{}", preset_name(arguments.made.preset), after,
                                result.backend, result.threads, plural(result.threads))},
                   {"tokens", Align::kRight},
                   {"ms", Align::kRight},
                   {"limit GMAC/s", Align::kRight},
                   {"measured", Align::kRight},
                   {"of the limit", Align::kRight},
                   {"goal", Align::kRight}});
  std::size_t tokens = result.parts.empty() ? 0 : result.parts.front().tokens;
  for (const PrefillRate& part : result.parts) {
    if (std::exchange(tokens, part.tokens) != part.tokens) table.add_rule();
    const bool limited = result.peak > 0;
    table.add_row({part.name, std::to_string(part.tokens), fmt::format("{:.1f}", part.seconds * 1e3),
                   limited ? giga_macs(result.peak) : "-", giga_macs(part.macs_per_second()),
                   limited ? fraction_text(part.macs_per_second() / result.peak) : "-",
                   fraction_text(instruction_goal(result.backend))});
  }
  fmt::print("{}\n", table.text());
}

std::string dense_text(const std::optional<double>& rate) {
  if (dense_product_version() == nullptr) return "not built in";
  return rate ? giga_macs(*rate) : "not on this machine";
}

void print_products(const PrefillBenchResult& result) {
  const char* version = dense_product_version();
  const std::string peer = version == nullptr ? "oneDNN" : fmt::format("oneDNN {}", version);
  TextTable table({{"one matrix, GMAC/s"},
                   {"tokens", Align::kRight},
                   {"limit", Align::kRight},
                   {"measured", Align::kRight},
                   {"of the limit", Align::kRight},
                   {"goal", Align::kRight},
                   {peer + " f32", Align::kRight},
                   {peer + " bf16", Align::kRight}});
  for (const ProductRate& rate : result.products) {
    table.add_row(
        {fmt::format("{} [{}, {}] {}", rate.name, rate.rows, rate.columns, weight_format_name(rate.format)),
         std::to_string(rate.tokens), giga_macs(result.peak), giga_macs(rate.macs_per_second),
         result.peak > 0 ? fraction_text(rate.macs_per_second / result.peak) : "-",
         fraction_text(instruction_goal(result.backend)), dense_text(rate.dense_f32),
         dense_text(rate.dense_bf16)});
  }
  fmt::print("{}\n", table.text());
  for (const ComputePeak& peak : result.peaks)
    fmt::print("{} {} GMAC/s\n", peak.name, giga_macs(peak.macs_per_second));
}

json result_to_json(const PrefillBenchOptions& options, const PrefillBenchResult& result) {
  json parts = json::array(), products = json::array(), peaks = json::array();
  for (const PrefillRate& part : result.parts) {
    parts.push_back({{"name", part.name},
                     {"tokens", part.tokens},
                     {"macs", part.macs},
                     {"seconds", part.seconds},
                     {"macs_per_second", part.macs_per_second()}});
  }
  const auto optional_number = [](const std::optional<double>& number) {
    return number ? json(*number) : json();
  };
  for (const ProductRate& rate : result.products) {
    products.push_back({{"name", rate.name},
                        {"format", weight_format_name(rate.format)},
                        {"shape", {rate.rows, rate.columns}},
                        {"tokens", rate.tokens},
                        {"macs_per_second", rate.macs_per_second},
                        {"onednn_f32_macs_per_second", optional_number(rate.dense_f32)},
                        {"onednn_bf16_macs_per_second", optional_number(rate.dense_bf16)}});
  }
  for (const ComputePeak& peak : result.peaks)
    peaks.push_back({{"name", peak.name}, {"macs_per_second", peak.macs_per_second}});
  const char* version = dense_product_version();
  return {{"backend", result.backend},
          {"threads", result.threads},
          {"memory_bytes", options.memory_bytes},
          {"context", options.context},
          {"experts", weight_format_name(options.experts)},
          {"limit_macs_per_second", result.peak},
          {"goal", instruction_goal(result.backend)},
          {"onednn_version", version == nullptr ? json() : json(version)},
          {"parts", std::move(parts)},
          {"products", std::move(products)},
          {"peaks", std::move(peaks)}};
}

int run_bench_prefill(const PrefillArguments& arguments, const CancelToken& cancel) {
  PrefillBenchOptions options;
  options.sizes = arguments.made.config();
  options.experts = arguments.made.experts;
  options.memory_bytes = arguments.made.bytes();
  options.tokens = arguments.tokens;
  options.context = arguments.context;
  options.backend = arguments.run.backend;
  options.threads = arguments.run.threads;
  options.rounds = arguments.rounds;
  options.announce = announcer(cancel);
  const PrefillBenchResult result = bench_prefill(options);
  if (arguments.json) {
    fmt::print("{}\n", result_to_json(options, result).dump(2));
  } else {
    print_parts(arguments, result);
    print_products(result);
  }
  return kExitLossless;
}

}  // namespace

void register_bench_prefill(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "prefill", "Prompts through layers of K3's widths, beside what the instructions do in registers");
  const auto arguments = std::make_shared<PrefillArguments>();
  command->footer(kExamples);
  add_made_model_options(*command, arguments->made);
  command->add_option("--tokens", arguments->tokens, "Lengths of the prompts, separated by commas")
      ->type_name("N,...")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{65536}));
  command->add_option("--context", arguments->context, "Tokens before each prompt")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, std::size_t{1000000}));
  add_backend_options(*command, arguments->run);
  add_rounds_option(*command, arguments->rounds);
  command->add_flag("--json", arguments->json, "Print the rates as JSON");
  command->callback(
      [arguments, &context] { context.exit_status = run_bench_prefill(*arguments, context.cancel); });
}

}  // namespace perigee
