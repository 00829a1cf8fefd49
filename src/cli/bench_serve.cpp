// perigee bench serve: a server under load, seen by its clients.
#include "cli/bench_serve.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/progress.h"
#include "bench/serve_bench.h"
#include "cli/bench_options.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kOverheadGoal = 50e-6;           // seconds a token
constexpr std::uint64_t kIdleGoal = 200'000'000;  // bytes of all idle clients together

constexpr const char* kExamples =
    "Examples:\n"
    "  perigee bench serve                                    models/nano, 1 to 32 clients, 1000 idle ones\n"
    "  perigee bench serve -m CKPT --prompt-tokens 1000 --reply-tokens 200 --concurrency 1,8\n"
    "  perigee bench serve --url http://127.0.0.1:8080        a server that runs; it needs no key\n"
    "Every client sends one streaming chat after the other. Prompts differ from their beginning on, so none "
    "is\n"
    "restored; what would end a reply before its length is forbidden.\n"
    "  first token     from sending the request to the first piece of text\n"
    "  between tokens  from one piece of text to the next\n"
    "  overhead        time of the scheduler outside the model's steps, a token; from /v1/state\n"
    "Idle: connections that have had one answer, and streams that wait in the queue and get heartbeats.";

struct ServeBenchArguments {
  ServeBenchOptions bench;
  fs::path checkpoint = "models/nano";
  std::string serve_options;
  bool json = false;
};

std::string milliseconds(double seconds) {
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

std::uint64_t idle_bytes(const IdleCost& idle) {
  return idle.bytes_with_streams - std::min(idle.bytes_before, idle.bytes_with_streams);
}

void print_idle(const IdleCost& idle) {
  const auto grown = [&](std::uint64_t bytes) { return bytes - std::min(idle.bytes_before, bytes); };
  fmt::print(
      "Idle: {} connections and {} streams; the server's memory grew by {} with the former and by {} with "
      "both,\nfrom {}; the goal is below {}.\n",
      idle.connections, idle.streams, format_bytes(grown(idle.bytes_with_connections)),
      format_bytes(idle_bytes(idle)), format_bytes(idle.bytes_before), format_bytes(kIdleGoal));
}

void print_result(const ServeBenchArguments& arguments, const ServeBenchResult& result) {
  TextTable table({{fmt::format("{}, clients", result.model)},
                   {"requests/s", Align::kRight},
                   {"tokens/s", Align::kRight},
                   {"first token p50", Align::kRight},
                   {"p99", Align::kRight},
                   {"between tokens p50", Align::kRight},
                   {"p99", Align::kRight},
                   {"overhead", Align::kRight},
                   {"failed", Align::kRight}});
  for (const ServeLevel& level : result.levels) {
    table.add_row({std::to_string(level.clients), fmt::format("{:.2f}", level.requests_a_second),
                   fmt::format("{:.1f}", level.tokens_a_second), milliseconds(level.first_token_p50),
                   milliseconds(level.first_token_p99), milliseconds(level.token_p50),
                   milliseconds(level.token_p99), fmt::format("{:.0f} µs", level.overhead_a_token * 1e6),
                   level.failed > 0 ? std::to_string(level.failed) : ""});
  }
  const ServeLevel& last = result.levels.back();
  fmt::print(
      "{}\nPrompts of {:.0f} tokens, replies of {:.0f}. The goal for the overhead is below {:.0f} µs a token "
      "at 32 clients.\n",
      table.text(), last.prompt_tokens, last.reply_tokens, kOverheadGoal * 1e6);
  if (arguments.bench.idle > 0 && !arguments.bench.command.empty()) print_idle(result.idle);
}

json level_to_json(const ServeLevel& level) {
  return {{"clients", level.clients},
          {"requests", level.requests},
          {"failed", level.failed},
          {"seconds", level.seconds},
          {"prompt_tokens", level.prompt_tokens},
          {"reply_tokens", level.reply_tokens},
          {"requests_per_second", level.requests_a_second},
          {"tokens_per_second", level.tokens_a_second},
          {"first_token_seconds", {{"p50", level.first_token_p50}, {"p99", level.first_token_p99}}},
          {"between_tokens_seconds", {{"p50", level.token_p50}, {"p99", level.token_p99}}},
          {"overhead_seconds_per_token", level.overhead_a_token}};
}

json result_to_json(const ServeBenchResult& result) {
  json levels = json::array();
  for (const ServeLevel& level : result.levels) levels.push_back(level_to_json(level));
  return {{"model", result.model},
          {"levels", std::move(levels)},
          {"overhead_goal_seconds", kOverheadGoal},
          {"idle",
           {{"connections", result.idle.connections},
            {"streams", result.idle.streams},
            {"bytes_before", result.idle.bytes_before},
            {"bytes_with_connections", result.idle.bytes_with_connections},
            {"bytes_with_streams", result.idle.bytes_with_streams},
            {"goal_bytes", kIdleGoal}}}};
}

int run_bench_serve(ServeBenchArguments& arguments, const CancelToken& cancel) {
  ServeBenchOptions& bench = arguments.bench;
  if (bench.url.empty()) {
    bench.command = {fs::read_symlink("/proc/self/exe"), "serve", "-m", arguments.checkpoint, "--port", "0"};
    std::istringstream words(arguments.serve_options);
    for (std::string word; words >> word;) bench.command.push_back(word);
  }
  bench.announce = announcer(cancel);
  const ServeBenchResult result = bench_serve(bench, cancel);
  if (arguments.json) {
    fmt::print("{}\n", result_to_json(result).dump(2));
  } else {
    print_result(arguments, result);
  }
  return kExitLossless;
}

}  // namespace

void register_bench_serve(CLI::App& bench, CommandContext& context) {
  CLI::App* command =
      bench.add_subcommand("serve", "A server under load: tokens per second, waiting times, idle clients");
  const auto arguments = std::make_shared<ServeBenchArguments>();
  ServeBenchOptions& options = arguments->bench;
  command->footer(kExamples);
  CLI::Option* model = command->add_option("-m,--model", arguments->checkpoint, "Checkpoint to serve")
                           ->type_name("CKPT")
                           ->capture_default_str();
  CLI::Option* more = command->add_option("--serve-options", arguments->serve_options,
                                          "More options for perigee serve, e.g. \"--threads 1\"");
  command->add_option("--url", options.url, "A server that runs already, on this machine")
      ->type_name("URL")
      ->excludes(model)
      ->excludes(more);
  command->add_option("--concurrency", options.concurrency, "How many clients at once")
      ->delimiter(',')
      ->type_name("N,...")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{10000}));
  command->add_option("--requests", options.requests_each, "Requests of every client, one after the other")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000}));
  command->add_option("--prompt-tokens", options.prompt_tokens, "Length of prompts, about")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000000}));
  command->add_option("--reply-tokens", options.reply_tokens, "Length of replies")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000000}));
  command->add_option("--idle", options.idle, "Idle connections, and as many idle streams; 0: none")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, std::size_t{10000}));
  command->add_flag("--json", arguments->json, "Print all figures as JSON");
  command->callback(
      [arguments, &context] { context.exit_status = run_bench_serve(*arguments, context.cancel); });
}

}  // namespace perigee
