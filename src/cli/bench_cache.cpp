// perigee bench cache: what every cache policy would have read for a recorded trace, at several sizes, beside
// the least possible. Reads no weights.
#include "cli/bench_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/text_table.h"
#include "experts/replay.h"
#include "experts/synthetic_router.h"
#include "experts/usage_file.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr const char* kExamples = R"(Examples:
  perigee run -m CKPT -p "Hello" --trace hello.trace           record what the routers choose
  perigee bench cache hello.trace                              every policy at several sizes
  perigee bench cache hello.trace --slots 500 --slots 6000     sizes of your own
  perigee bench cache --synthetic 300                          no trace at hand: drawn with K3's shape
"ideal" is Belady's rule, which knows the future: no policy reads less without reading ahead. "knows the odds" is, for
synthetic routing, the best of whoever knows how likely each expert is but not what will be drawn. Rates are shares of the
experts that steps ask for; those of a synthetic trace say something about its stated statistics only, not about K3.)";

struct CacheArguments {
  std::string trace;
  SyntheticRouting synthetic;
  std::vector<std::size_t> slots;
  std::filesystem::path usage;
  double warm_up = 0.2;
  bool json = false;
};

struct Row {
  std::string policy;
  ReplayResult result;
  double of_ideal = 0;
};

// Some that fit a machine with little memory, some that fit much.
std::vector<std::size_t> default_sizes(const Trace& trace) {
  std::vector<std::size_t> sizes;
  for (const double share : {0.01, 0.05, 0.1, 0.2, 0.4, 0.7}) {
    sizes.push_back(static_cast<std::size_t>(share * static_cast<double>(trace.layers * trace.experts)));
  }
  std::erase(sizes, 0U);
  return sizes;
}

std::vector<Row> rows_of_size(const Trace& trace, const CacheArguments& arguments, std::size_t slots,
                              std::size_t skip) {
  std::vector<Row> rows;
  const ReplayResult ideal = replay_best(trace, slots, skip);
  const auto add = [&](std::string name, const ReplayResult& result) {
    const double rate = ideal.hit_rate();
    rows.push_back({std::move(name), result, rate > 0 ? result.hit_rate() / rate : 1});
  };
  ReplayOptions options;
  options.slots = slots;
  options.skip = skip;
  if (!arguments.usage.empty()) {
    options.usage = load_usage(arguments.usage).value_or(ExpertUsage{});
  }
  for (const auto policy : {CachePolicyKind::kLru, CachePolicyKind::kLeastStale, CachePolicyKind::kPopular}) {
    options.policy = policy;
    add(cache_policy_name(policy), replay(trace, options));
  }
  const bool foreseen = std::ranges::any_of(trace.visits, [](const auto& v) { return !v.foreseen.empty(); });
  if (foreseen) {
    options.prefetch = true;
    add("popular, reading ahead", replay(trace, options));
  }
  if (arguments.trace.empty()) {
    add("knows the odds", replay_knowing_odds(arguments.synthetic, trace, slots, skip));
  }
  add("ideal", ideal);
  return rows;
}

json row_to_json(const Row& row, const Trace& trace) {
  const ReplayResult& r = row.result;
  return {{"policy", row.policy},
          {"slots", r.slots},
          {"slot_bytes", r.slots * trace.expert_bytes},
          {"hit_rate", r.hit_rate()},
          {"hit_rate_pinned", r.rate(r.hits_pinned)},
          {"hit_rate_pool", r.rate(r.hits_pool)},
          {"hit_rate_prefetch", r.rate(r.hits_prefetch)},
          {"of_ideal", row.of_ideal},
          {"reads_a_token", r.reads_a_token()},
          {"bytes_a_token", r.reads_a_token() * static_cast<double>(trace.expert_bytes)}};
}

void add_rows(TextTable& table, const std::vector<Row>& rows, const Trace& trace) {
  table.add_rule();
  for (const Row& row : rows) {
    const ReplayResult& r = row.result;
    const bool first = &row == &rows.front();
    const double bytes = r.reads_a_token() * static_cast<double>(trace.expert_bytes);
    table.add_row({first ? fmt::format("{} ({})", r.slots, format_bytes(r.slots * trace.expert_bytes)) : "",
                   row.policy, fmt::format("{:.1f}%", 100 * r.hit_rate()),
                   fmt::format("{:.1f}%", 100 * r.rate(r.hits_pinned)),
                   fmt::format("{:.1f}%", 100 * r.rate(r.hits_pool)),
                   fmt::format("{:.1f}%", 100 * r.rate(r.hits_prefetch)), fmt::format("{:.2f}", row.of_ideal),
                   format_bytes(static_cast<std::uint64_t>(bytes))});
  }
}

std::string title_of(const Trace& trace, const CacheArguments& arguments) {
  const TraceStatistics s = measure_trace(trace);
  return fmt::format(
      "{}: {} tokens, {} layers of {} experts of {}; the most used tenth gets {:.0f}% of uses, {:.0f}% were "
      "used "
      "by the token before{}",
      arguments.trace.empty() ? "SYNTHETIC routing, not a model's" : arguments.trace, trace.tokens(),
      trace.layers, trace.experts, format_bytes(trace.expert_bytes), 100 * s.popular_share, 100 * s.overlap,
      s.recall > 0 ? fmt::format(", {:.0f}% foreseen", 100 * s.recall) : "");
}

void run_bench_cache(const CacheArguments& arguments, const CancelToken& cancel) {
  if (arguments.trace.empty() == (arguments.synthetic.tokens == 0)) {
    fail(ErrorCode::kUsage, "give a trace, or --synthetic with a number of tokens");
  }
  const Trace trace =
      arguments.trace.empty() ? make_synthetic_trace(arguments.synthetic) : load_trace(arguments.trace);
  const auto skip = static_cast<std::size_t>(arguments.warm_up * static_cast<double>(trace.visits.size()));
  json document = {
      {"synthetic", arguments.trace.empty()}, {"title", title_of(trace, arguments)}, {"rows", json::array()}};
  TextTable table({{"memory for experts"},
                   {"policy"},
                   {"from memory", Align::kRight},
                   {"popular", Align::kRight},
                   {"pool", Align::kRight},
                   {"foreseen", Align::kRight},
                   {"of ideal", Align::kRight},
                   {"read a token", Align::kRight}});
  for (const std::size_t slots : arguments.slots.empty() ? default_sizes(trace) : arguments.slots) {
    cancel.check();
    const std::vector<Row> rows = rows_of_size(trace, arguments, slots, skip);
    add_rows(table, rows, trace);
    for (const Row& row : rows) document["rows"].push_back(row_to_json(row, trace));
  }
  if (arguments.json) {
    fmt::print("{}\n", document.dump(2));
  } else {
    fmt::print("{}\n{}", title_of(trace, arguments), table.text());
  }
}

}  // namespace

void register_bench_cache(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "cache", "Replay recorded routing: what each cache policy reads, beside the least possible");
  const auto arguments = std::make_shared<CacheArguments>();
  arguments->synthetic.tokens = 0;
  SyntheticRouting& routing = arguments->synthetic;
  command->add_option("TRACE", arguments->trace, "Trace that perigee run --trace wrote");
  command
      ->add_option("--slots", arguments->slots,
                   "Experts that fit into memory; repeatable [from 1% to 70% of all]")
      ->type_name("N")
      ->check(CLI::Range(1U, 1U << 24))
      ->allow_extra_args(false);
  command->add_option("--usage", arguments->usage, "Usage file of earlier runs, for the popular set")
      ->type_name("FILE");
  command
      ->add_option("--warm-up", arguments->warm_up,
                   "Share of the trace that fills the cache and is not counted")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9));
  command->add_option("--synthetic", routing.tokens, "Instead of a trace: draw routing of this many tokens")
      ->type_name("TOKENS")
      ->check(CLI::Range(1U, 1U << 20));
  const auto add = [&](const char* name, auto& value, const char* help, auto low, auto high) {
    command->add_option(name, value, help)
        ->capture_default_str()
        ->check(CLI::Range(low, high))
        ->group("Synthetic");
  };
  add("--layers", routing.layers, "Layers, the first of them without experts", 2U, 1024U);
  add("--experts", routing.experts, "Experts of a layer", 2U, 4096U);
  add("--top-k", routing.top_k, "Experts of a token", 1U, 64U);
  add("--skew", routing.skew, "The r-th most popular expert is drawn with weight r^-SKEW", 0.0, 2.0);
  add("--overlap", routing.overlap, "Share of a token's experts that the one before used as well", 0.0, 0.95);
  add("--recall", routing.recall, "Share of a layer's experts that is foreseen", 0.0, 1.0);
  add("--seed", routing.seed, "Of the random numbers", 0U, 1U << 31);
  command->add_flag("--json", arguments->json, "Print every row as JSON");
  command->footer(kExamples);
  command->callback([arguments, &context] { run_bench_cache(*arguments, context.cancel); });
}

}  // namespace perigee
