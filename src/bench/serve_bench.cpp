#include "bench/serve_bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "bench/load_client.h"
#include "bench/server_process.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr double kIdlePatience = 60;  // seconds for all streams to show a sign of life

// Text about the lengths that were asked for, and markers that would end a reply before its length.
struct Shape {
  double tokens_a_word = 1;
  std::vector<std::uint32_t> ends;
  std::uint64_t context_tokens = 0;
};

// Words without a pattern; `first` makes texts differ from their beginning on, so that no prefix is known.
std::string words(std::size_t count, std::uint64_t first) {
  constexpr const char* kWords[] = {"water", "time", "story", "light", "road", "night", "music", "paper"};
  std::string text = std::to_string(first);
  std::uint64_t value = first;
  for (std::size_t i = 0; i < count; ++i) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    text += std::string(" ") + kWords[value >> 61];
  }
  return text;
}

std::vector<std::uint32_t> ids_of(const LoadTarget& target, const std::string& text) {
  const json answer = json::parse(ask(target, "POST", "/tokenize", json{{"prompt", text}}.dump()));
  return answer.at("tokens").get<std::vector<std::uint32_t>>();
}

json state_of(const LoadTarget& target) {
  return json::parse(ask(target, "GET", "/v1/state"));
}

Shape shape_of(const LoadTarget& target) {
  constexpr std::size_t kSample = 500;
  Shape shape;
  const auto sample = static_cast<double>(ids_of(target, words(kSample, 1)).size());
  shape.tokens_a_word = std::max(sample / kSample, 0.1);
  for (const char* marker : {"<|close|>", "<|end_of_msg|>", "[EOS]"}) {
    const std::vector<std::uint32_t> ids = ids_of(target, marker);
    if (ids.size() == 1) shape.ends.push_back(ids.front());
  }
  shape.context_tokens = state_of(target).at("context_tokens").get<std::uint64_t>();
  return shape;
}

std::string chat_body(const Shape& shape, std::size_t prompt_tokens, std::size_t reply_tokens,
                      std::uint64_t number) {
  const auto count = static_cast<std::size_t>(static_cast<double>(prompt_tokens) / shape.tokens_a_word);
  json bias = json::object();
  for (const std::uint32_t id : shape.ends) bias[std::to_string(id)] = -100;
  return json{{"messages", {{{"role", "user"}, {"content", words(count, number)}}}},
              {"max_tokens", reply_tokens},
              {"seed", number},
              {"logit_bias", std::move(bias)},
              {"stream", true},
              {"stream_options", {{"include_usage", true}}}}
      .dump();
}

struct Spent {
  double model = 0, busy = 0, tokens = 0;
};

Spent spent(const LoadTarget& target) {
  const json state = state_of(target);
  return {state.at("steps").at("model_seconds").get<double>(),
          state.at("steps").at("busy_seconds").get<double>(),
          state.at("tokens").at("generated").get<double>()};
}

ServeLevel level_of(std::size_t clients, const LoadResult& load, const Spent& before, const Spent& after) {
  ServeLevel level;
  level.clients = clients;
  level.seconds = load.seconds;
  std::vector<double> firsts, gaps;
  for (const StreamRecord& record : load.records) {
    if (!record.complete()) {
      ++level.failed;
      continue;
    }
    ++level.requests;
    level.prompt_tokens += static_cast<double>(record.prompt_tokens);
    level.reply_tokens += static_cast<double>(record.completion_tokens);
    firsts.push_back(record.first_seconds);
    gaps.insert(gaps.end(), record.gaps.begin(), record.gaps.end());
  }
  const auto requests = static_cast<double>(std::max<std::size_t>(level.requests, 1));
  level.requests_a_second = static_cast<double>(level.requests) / load.seconds;
  level.tokens_a_second = level.reply_tokens / load.seconds;
  level.prompt_tokens /= requests;
  level.reply_tokens /= requests;
  level.first_token_p50 = percentile(firsts, 0.5);
  level.first_token_p99 = percentile(firsts, 0.99);
  level.token_p50 = percentile(gaps, 0.5);
  level.token_p99 = percentile(gaps, 0.99);
  const double tokens = std::max(after.tokens - before.tokens, 1.0);
  level.overhead_a_token = ((after.busy - before.busy) - (after.model - before.model)) / tokens;
  return level;
}

class ServeBench {
 public:
  ServeBench(const ServeBenchOptions& options, const CancelToken& cancel)
      : options_(options), cancel_(cancel) {}

  ServeBenchResult run() {
    ServeBenchResult result;
    {
      std::optional<ServerProcess> server;
      const LoadTarget target = load_target(url_of(server, 0));
      const Shape shape = shape_of(target);
      result.model = state_of(target).at("model").get<std::string>();
      load(target, shape, 1, 1);  // what is done once only
      for (const std::size_t clients : options_.concurrency) {
        announce(fmt::format("{} at once", clients));
        result.levels.push_back(load(target, shape, clients, options_.requests_each));
      }
    }
    if (options_.idle > 0 && !options_.command.empty()) result.idle = idle();
    return result;
  }

 private:
  void announce(const std::string& what) const {
    if (options_.announce) options_.announce(what);
  }

  // Of the running server, or of one that is started; `running`: how many replies at once, 0: as many as
  // come.
  std::string url_of(std::optional<ServerProcess>& server, std::size_t running) const {
    if (options_.command.empty()) return options_.url;
    const std::size_t most = std::max<std::size_t>(std::ranges::max(options_.concurrency), 1);
    std::vector<std::string> command = options_.command;
    for (const std::string& word :
         {std::string("--max-running"), std::to_string(running > 0 ? running : most),
          std::string("--max-waiting"), std::to_string(2 * most + options_.idle)}) {
      command.push_back(word);
    }
    server.emplace(command, cancel_);
    return server->url();
  }

  ServeLevel load(const LoadTarget& target, const Shape& shape, std::size_t clients, std::size_t each) {
    std::vector<std::string> bodies;
    for (std::size_t i = 0; i < clients * each; ++i) {
      bodies.push_back(chat_body(shape, options_.prompt_tokens, options_.reply_tokens, next_number_++));
    }
    const Spent before = spent(target);
    const LoadResult result = run_load(target, bodies, clients, cancel_);
    return level_of(clients, result, before, spent(target));
  }

  // Streams are idle while they wait in the queue behind one that is long.
  IdleCost idle() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
      files.rlim_cur = files.rlim_max;  // the server inherits it
      ::setrlimit(RLIMIT_NOFILE, &files);
    }
    announce(fmt::format("{} idle connections and {} idle streams", options_.idle, options_.idle));
    std::optional<ServerProcess> server;
    const LoadTarget target = load_target(url_of(server, 1));
    const Shape shape = shape_of(target);
    load(target, shape, 1, 1);
    IdleCost cost;
    cost.bytes_before = resident_bytes(server->pid());
    HeldConnections held(target);
    cost.connections =
        held.open(options_.idle, get_request("/health"), R"({"status":"ok"})", kIdlePatience, cancel_);
    cost.bytes_with_connections = resident_bytes(server->pid());
    const std::size_t longest = shape.context_tokens - std::min<std::uint64_t>(shape.context_tokens / 2, 256);
    const std::string body = chat_body(shape, 16, longest, next_number_++);
    cost.streams =
        held.open(options_.idle, post_request("/v1/chat/completions", body), "\n\n", kIdlePatience, cancel_);
    cost.bytes_with_streams = resident_bytes(server->pid());
    return cost;
  }

  const ServeBenchOptions& options_;
  const CancelToken& cancel_;
  std::uint64_t next_number_ = 1;
};

}  // namespace

double percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const double place = std::ceil(part * static_cast<double>(values.size())) - 1;
  const auto index =
      static_cast<std::ptrdiff_t>(std::clamp(place, 0.0, static_cast<double>(values.size() - 1)));
  std::ranges::nth_element(values, values.begin() + index);
  return values[static_cast<std::size_t>(index)];
}

ServeBenchResult bench_serve(const ServeBenchOptions& options, const CancelToken& cancel) {
  if (options.concurrency.empty() || std::ranges::min(options.concurrency) == 0)
    fail(ErrorCode::kUsage, "--concurrency: each is at least 1");
  return ServeBench(options, cancel).run();
}

}  // namespace perigee
