#include "cli/bench_model.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "bench/model_bench.h"
#include "cli/bench_options.h"
#include "cli/model_options.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr const char* kExamples =
    "Examples:\n"
    "  perigee bench model -m CKPT                               loading, a prompt of 256 tokens, 32 tokens\n"
    "  perigee bench model -m CKPT --prompt 2000 --tokens 100    longer ones\n"
    "Limits: loading, reading the same files; the prompt, its multiply-adds in registers; a token, reading "
    "the\n"
    "weights that it needs from where they lie.";

struct ModelArguments {
  ModelOptions model;
  std::size_t prompt_tokens = ModelBenchOptions{}.prompt_tokens;
  std::size_t tokens = ModelBenchOptions{}.tokens;
  unsigned rounds = ModelBenchOptions{}.rounds;
  bool json = false;
};

void add_row(TextTable& table, const std::string& name, const std::string& rate, double limit, double seconds,
             double goal) {
  table.add_row({name, fmt::format("{:.2f}", limit * 1e3), fmt::format("{:.2f}", seconds * 1e3), rate,
                 limit > 0 ? fraction_text(limit / seconds) : "-", fraction_text(goal)});
}

void print_result(const ModelBenchOptions& options, const ModelBenchResult& result) {
  TextTable table({{fmt::format("{}, {} thread{}", result.backend, result.threads, plural(result.threads))},
                   {"limit ms", Align::kRight},
                   {"measured ms", Align::kRight},
                   {"rate", Align::kRight},
                   {"of the limit", Align::kRight},
                   {"goal", Align::kRight}});
  add_row(table, fmt::format("loading {}", format_bytes(result.file_bytes)),
          fmt::format("{} GB/s", giga(static_cast<double>(result.file_bytes) / result.load_seconds)),
          result.load_limit_seconds, result.load_seconds, kMemoryGoal);
  add_row(table, fmt::format("first token of a prompt of {}", options.prompt_tokens),
          fmt::format("{:.1f} tokens/s", static_cast<double>(options.prompt_tokens) / result.prompt_seconds),
          result.prompt_limit_seconds, result.prompt_seconds, instruction_goal(result.backend));
  if (result.token_seconds > 0) {
    add_row(table, fmt::format("each further token, {}", format_bytes(result.token_bytes)),
            fmt::format("{:.1f} tokens/s", 1 / result.token_seconds), result.token_limit_seconds,
            result.token_seconds, kMemoryGoal);
  }
  fmt::print("{}", table.text());
}

json result_to_json(const ModelArguments& arguments, const ModelBenchResult& result) {
  return {{"model", arguments.model.checkpoint.string()},
          {"backend", result.backend},
          {"threads", result.threads},
          {"precision", precision_name(arguments.model.precision)},
          {"file_bytes", result.file_bytes},
          {"load_seconds", result.load_seconds},
          {"load_limit_seconds", result.load_limit_seconds},
          {"prompt_tokens", arguments.prompt_tokens},
          {"prompt_macs", result.prompt_macs},
          {"first_token_seconds", result.prompt_seconds},
          {"first_token_limit_seconds", result.prompt_limit_seconds},
          {"token_bytes", result.token_bytes},
          {"token_seconds", result.token_seconds},
          {"token_limit_seconds", result.token_limit_seconds},
          {"tokens_per_second", result.token_seconds > 0 ? json(1 / result.token_seconds) : json()},
          {"rounds", arguments.rounds}};
}

int run_bench_model(const ModelArguments& arguments, const CancelToken& cancel) {
  ModelBenchOptions options;
  options.checkpoint = arguments.model.checkpoint;
  options.ops = {arguments.model.precision, arguments.model.threads, arguments.model.backend};
  options.prompt_tokens = arguments.prompt_tokens;
  options.tokens = arguments.tokens;
  options.rounds = arguments.rounds;
  options.announce = announcer(cancel);
  const ModelBenchResult result = bench_model(options);
  if (arguments.json) {
    fmt::print("{}\n", result_to_json(arguments, result).dump(2));
  } else {
    print_result(options, result);
  }
  return kExitLossless;
}

}  // namespace

void register_bench_model(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "model", "A checkpoint: loading, first token and tokens per second, beside this machine's limits");
  const auto arguments = std::make_shared<ModelArguments>();
  command->footer(kExamples);
  add_model_option(*command, arguments->model);
  command->add_option("--prompt", arguments->prompt_tokens, "Tokens of the prompt")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000000}));
  command->add_option("--tokens", arguments->tokens, "Tokens to generate")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000}));
  add_backend_options(*command, arguments->model);
  add_rounds_option(*command, arguments->rounds);
  command->add_flag("--json", arguments->json, "Print the times as JSON");
  command->callback(
      [arguments, &context] { context.exit_status = run_bench_model(*arguments, context.cancel); });
}

}  // namespace perigee
