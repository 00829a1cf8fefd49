#include "cli/bench_text.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/log.h"
#include "base/progress.h"
#include "bench/text_bench.h"
#include "cli/text_table.h"
#include "cli/vocabulary_option.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr double kGoal = 5;  // times tiktoken on one thread

constexpr const char* kExamples =
    "Examples:\n"
    "  perigee bench text                            with models/nano, nothing to compare with\n"
    "  perigee bench text --vocab K3 --peer python3  from a checkout, where python3 has tiktoken";

struct BenchTextArguments {
  std::filesystem::path vocabulary;
  std::string peer;
  std::string peer_script = "tools/peers/tiktoken_rates.py";
  std::size_t input_bytes = TextBenchOptions{}.input_bytes;
  unsigned rounds = TextBenchOptions{}.rounds;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  bool json = false;
};

std::string megabytes_text(double bytes_per_second) {
  return fmt::format("{:.1f}", bytes_per_second / 1e6);
}

std::string times_text(double ratio) {
  return fmt::format("{:.1f}x", ratio);
}

void print_rates(const std::string& title, const std::vector<EncodeRate>& rates,
                 const TextBenchResult& result, const BenchTextArguments& arguments) {
  TextTable table(
      {{title},
       {"ids", Align::kRight},
       {"one thread", Align::kRight},
       {result.peer_version.empty() ? "no peer" : "tiktoken " + result.peer_version, Align::kRight},
       {fmt::format("ratio, goal {}", times_text(kGoal)), Align::kRight},
       {fmt::format("{} thread{}", arguments.threads, plural(arguments.threads)), Align::kRight},
       {"of memory reading", Align::kRight}});
  for (const EncodeRate& rate : rates) {
    table.add_row({fmt::format("{}, {}", rate.name, format_bytes(rate.bytes)), with_commas(rate.ids),
                   megabytes_text(rate.one_thread), rate.peer ? megabytes_text(*rate.peer) : "",
                   rate.peer ? times_text(rate.one_thread / *rate.peer) : "", megabytes_text(rate.parallel),
                   percent(rate.one_thread, result.memory_read)});
  }
  fmt::print("{}\n", table.text());
}

void print_works(const TextBenchResult& result) {
  TextTable table({{"one thread"},
                   {"ids", Align::kRight},
                   {"time", Align::kRight},
                   {"per id", Align::kRight},
                   {"tiktoken", Align::kRight}});
  for (const TimedWork* work :
       {&result.load, &result.long_prompt, &result.long_session, &result.reply_by_token}) {
    table.add_row({work->name, with_commas(work->ids), fmt::format("{:.1f} ms", work->seconds * 1e3),
                   fmt::format("{:.0f} ns", work->seconds * 1e9 / static_cast<double>(work->ids)),
                   work->peer_seconds ? fmt::format("{:.1f} ms", *work->peer_seconds * 1e3) : ""});
  }
  fmt::print("{}", table.text());
}

void print_result(const TextBenchResult& result, const BenchTextArguments& arguments) {
  print_rates("MB/s", result.texts, result, arguments);
  print_rates("worst cases, MB/s", result.worst_cases, result, arguments);
  print_works(result);
  fmt::print("\nOne core reads memory at {:.2f} GB/s.\n", result.memory_read / 1e9);
}

json rates_to_json(const std::vector<EncodeRate>& rates) {
  json list = json::array();
  for (const EncodeRate& rate : rates) {
    json row = {{"name", rate.name},
                {"bytes", rate.bytes},
                {"ids", rate.ids},
                {"bytes_per_second", rate.one_thread},
                {"parallel_bytes_per_second", rate.parallel}};
    if (rate.peer) row["tiktoken_bytes_per_second"] = *rate.peer;
    list.push_back(std::move(row));
  }
  return list;
}

json work_to_json(const TimedWork& work) {
  json row = {{"name", work.name}, {"ids", work.ids}, {"seconds", work.seconds}};
  if (work.peer_seconds) row["tiktoken_seconds"] = *work.peer_seconds;
  return row;
}

json result_to_json(const TextBenchResult& result, const BenchTextArguments& arguments) {
  return {{"memory_read_bytes_per_second", result.memory_read},
          {"threads", arguments.threads},
          {"tiktoken_version", result.peer_version.empty() ? json() : json(result.peer_version)},
          {"texts", rates_to_json(result.texts)},
          {"worst_cases", rates_to_json(result.worst_cases)},
          {"works",
           {work_to_json(result.load), work_to_json(result.long_prompt), work_to_json(result.long_session),
            work_to_json(result.reply_by_token)}}};
}

int run_bench_text(const BenchTextArguments& arguments, const CancelToken& cancel) {
  TextBenchOptions options;
  options.vocabulary = find_vocabulary(arguments.vocabulary);
  options.input_bytes = arguments.input_bytes;
  options.rounds = arguments.rounds;
  options.threads = arguments.threads;
  if (!arguments.peer.empty()) options.peer = {arguments.peer, arguments.peer_script};
  options.announce = [&cancel](const std::string& step) {
    cancel.check();
    log_info("{}", step);
  };
  const TextBenchResult result = bench_text(options);
  if (arguments.json) {
    fmt::print("{}\n", result_to_json(result, arguments).dump(2));
  } else {
    print_result(result, arguments);
  }
  return kExitLossless;
}

}  // namespace

void register_bench_text(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "text", "Text to ids and replies to messages, beside tiktoken on the same texts, its ids compared");
  const auto arguments = std::make_shared<BenchTextArguments>();
  command->footer(kExamples);
  add_vocabulary_option(*command, arguments->vocabulary);
  command->add_option("--peer", arguments->peer, "A Python that has tiktoken; without it nothing is compared")
      ->type_name("PYTHON");
  command->add_option("--peer-script", arguments->peer_script, "What that Python runs")
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option(
          "--size", arguments->input_bytes,
          "Bytes of each text; worst cases are 5 times as long, the long prompt has half as many ids")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1000}, std::size_t{100'000'000}));
  command->add_option("--rounds", arguments->rounds, "Runs of each step; medians are shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 99));
  command->add_option("--threads", arguments->threads, "Threads of the parallel rates")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", arguments->json, "Print the rates as JSON");
  command->callback(
      [arguments, &context] { context.exit_status = run_bench_text(*arguments, context.cancel); });
}

}  // namespace perigee
