#include "cli/bench_decode.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "bench/decode_bench.h"
#include "bench/random_model.h"
#include "cli/bench_options.h"
#include "cli/model_options.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr const char* kExamples =
    "Examples:\n"
    "  perigee bench decode --real-size                      K3's first four layers and its head, all 93 "
    "extrapolated\n"
    "  perigee bench decode --real-size --layers 93          all of them, over the same memory again and "
    "again\n"
    "  perigee bench decode --real-size --context 100000     with a long past\n"
    "The weights are random; what runs is the model's own forward pass. The limit of a part is the time in "
    "which\n"
    "the same threads read as many bytes.";

struct DecodeArguments {
  MadeModelOptions made;
  std::size_t layers = 4;
  std::size_t context = 1000;
  ModelOptions run;  // backend and threads
  unsigned rounds = 5;
  bool json = false;
};

std::string milliseconds(double seconds) {
  return fmt::format("{:.2f}", seconds * 1e3);
}

double limit_seconds(const DecodeBenchResult& result, std::uint64_t bytes) {
  return static_cast<double>(bytes) / result.bytes_per_second;
}

void print_result(const DecodeArguments& arguments, const DecodeBenchOptions& options,
                  const DecodeBenchResult& result) {
  TextTable table({{fmt::format("one token after {} others, {}, {} thread{}", options.context, result.backend,
                                result.threads, plural(result.threads))},
                   {fmt::format("in {}", preset_name(arguments.made.preset)), Align::kRight},
                   {"measured", Align::kRight},
                   {"bytes", Align::kRight},
                   {"limit ms", Align::kRight},
                   {"measured ms", Align::kRight},
                   {"of the limit", Align::kRight},
                   {"goal", Align::kRight}});
  for (const DecodePart& part : result.parts) {
    if (part.count == 0) continue;
    const double limit = limit_seconds(result, part.bytes);
    const bool reads = part.bytes > 0 && part.seconds > 0;
    table.add_row({part.name, std::to_string(part.count), std::to_string(part.measured),
                   part.bytes > 0 ? format_bytes(part.bytes) : "", part.bytes > 0 ? milliseconds(limit) : "",
                   part.measured > 0 ? milliseconds(part.seconds) : "not measured",
                   reads ? fraction_text(limit / part.seconds) : "",
                   reads ? fraction_text(kMemoryGoal) : ""});
  }
  table.add_rule();
  const double limit = limit_seconds(result, result.token_bytes());
  table.add_row({fmt::format("all {} layers and the head", options.whole.num_hidden_layers), "", "",
                 format_bytes(result.token_bytes()), milliseconds(limit),
                 milliseconds(result.token_seconds()), fraction_text(limit / result.token_seconds()),
                 fraction_text(kMemoryGoal)});
  fmt::print("{}\n{:.3f} tokens/s of {:.3f} at the {} GB/s that memory was read with in the same run.\n",
             table.text(), 1 / result.token_seconds(), 1 / limit, giga(result.bytes_per_second));
}

json result_to_json(const DecodeBenchOptions& options, const DecodeBenchResult& result) {
  json parts = json::array();
  for (const DecodePart& part : result.parts) {
    parts.push_back({{"name", part.name},
                     {"count", part.count},
                     {"measured", part.measured},
                     {"bytes", part.bytes},
                     {"seconds", part.seconds},
                     {"limit_seconds", limit_seconds(result, part.bytes)}});
  }
  const double limit = limit_seconds(result, result.token_bytes());
  return {{"backend", result.backend},
          {"threads", result.threads},
          {"context", options.context},
          {"memory_bytes", options.memory_bytes},
          {"experts", weight_format_name(options.experts)},
          {"layers", options.whole.num_hidden_layers},
          {"measured_layers", options.measured.num_hidden_layers},
          {"read_bytes_per_second", result.bytes_per_second},
          {"parts", std::move(parts)},
          {"token_bytes", result.token_bytes()},
          {"token_seconds", result.token_seconds()},
          {"token_limit_seconds", limit},
          {"tokens_per_second", 1 / result.token_seconds()},
          {"of_limit", limit / result.token_seconds()},
          {"goal", kMemoryGoal}};
}

int run_bench_decode(const DecodeArguments& arguments, const CancelToken& cancel) {
  DecodeBenchOptions options;
  options.whole = arguments.made.config();
  options.measured = first_layers(options.whole, arguments.layers);
  options.experts = arguments.made.experts;
  options.memory_bytes = arguments.made.bytes();
  options.context = arguments.context;
  options.backend = arguments.run.backend;
  options.threads = arguments.run.threads;
  options.rounds = arguments.rounds;
  options.announce = announcer(cancel);
  const DecodeBenchResult result = bench_decode(options);
  if (arguments.json) {
    fmt::print("{}\n", result_to_json(options, result).dump(2));
  } else {
    print_result(arguments, options, result);
  }
  return kExitLossless;
}

}  // namespace

void register_bench_decode(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "decode", "One token through layers of K3's widths, beside the time that reading their bytes takes");
  const auto arguments = std::make_shared<DecodeArguments>();
  command->footer(kExamples);
  add_made_model_options(*command, arguments->made);
  command
      ->add_option("--layers", arguments->layers,
                   "How many layers run, of the first ones; 4 have every kind of part")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}));
  command->add_option("--context", arguments->context, "Tokens before the measured ones")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, std::size_t{1000000}));
  add_backend_options(*command, arguments->run);
  add_rounds_option(*command, arguments->rounds);
  command->add_flag("--json", arguments->json, "Print the parts as JSON");
  command->callback(
      [arguments, &context] { context.exit_status = run_bench_decode(*arguments, context.cancel); });
}

}  // namespace perigee
