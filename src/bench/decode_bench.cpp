#include "bench/decode_bench.h"

#include <array>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/thread_pool.h"
#include "bench/layer_costs.h"
#include "bench/random_model.h"
#include "bench/statistics.h"
#include "bench/stopwatch.h"

namespace perigee {
namespace {

// What the parts are, in the order of the table.
enum PartKind : std::size_t { kKda, kMla, kDense, kMoe, kBetween, kHead, kKinds };

constexpr std::array<const char*, kKinds> kPartNames = {
    "KDA attention", "MLA attention", "dense FFN", "latent MoE", "norms and residuals", "output head"};

PartKind attention_kind(const K3Config& config, std::size_t layer) {
  return config.is_mla[layer] ? kMla : kKda;
}

PartKind ffn_kind(const K3Config& config, std::size_t layer) {
  return config.is_moe(layer) ? kMoe : kDense;
}

std::array<std::size_t, kKinds> count_parts(const K3Config& config) {
  std::array<std::size_t, kKinds> counts{};
  for (std::size_t i = 0; i < config.num_hidden_layers; ++i) {
    ++counts[attention_kind(config, i)];
    ++counts[ffn_kind(config, i)];
    ++counts[kBetween];
  }
  counts[kHead] = 1;
  return counts;
}

// Cuts a token's time at the names that the forward pass calls out (model/forward.h, Observer).
class PartTimer {
 public:
  PartTimer(const K3Config& config, clockid_t clock) : config_(config), clock_(clock) {}

  void begin() { last_ = clock_seconds(clock_); }
  void end() { times_[kHead].push_back(lap()); }

  ForwardOptions options() {
    ForwardOptions options;
    options.observe = [this](std::string_view name, int layer, ConstRows) { see(name, layer); };
    return options;
  }

  const std::vector<double>& times(std::size_t kind) const { return times_[kind]; }

 private:
  double lap() {
    const double now = clock_seconds(clock_);
    return now - std::exchange(last_, now);
  }

  void see(std::string_view name, int layer) {
    if (name == "attn_out") {
      times_[attention_kind(config_, static_cast<std::size_t>(layer))].push_back(lap());
    } else if (name == "ffn_out") {
      times_[ffn_kind(config_, static_cast<std::size_t>(layer))].push_back(lap());
    } else if (name == "attn_in" || name == "ffn_in") {
      between_ += lap();
    } else if (name == "prefix") {
      times_[kBetween].push_back(between_ + lap());
      between_ = 0;
    } else {  // behind the last layer: its norm belongs to the head's norms
      last_ = clock_seconds(clock_);
    }
  }

  const K3Config& config_;
  const clockid_t clock_;
  double last_ = 0;
  double between_ = 0;
  std::array<std::vector<double>, kKinds> times_;
};

// Bytes of one part of each kind, of the layers that the model has.
std::array<std::uint64_t, kKinds> bytes_of_parts(const RandomModel& model, std::uint64_t one_expert,
                                                 std::size_t context) {
  std::array<std::uint64_t, kKinds> bytes{};
  const K3Config& config = model.config();
  for (std::size_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerWeights& w = model.text().layers[i];
    bytes[attention_kind(config, i)] = attention_bytes(config, w, context + 1);
    bytes[ffn_kind(config, i)] =
        ffn_bytes(w) + (config.is_moe(i) ? config.num_experts_per_token * one_expert : 0);
  }
  bytes[kHead] = matrix_bytes(model.text().lm_head);
  return bytes;
}

}  // namespace

double DecodeBenchResult::token_seconds() const {
  return std::accumulate(parts.begin(), parts.end(), 0.0, [](double sum, const DecodePart& part) {
    return sum + static_cast<double>(part.count) * part.seconds;
  });
}

std::uint64_t DecodeBenchResult::token_bytes() const {
  return std::accumulate(
      parts.begin(), parts.end(), std::uint64_t{0},
      [](std::uint64_t sum, const DecodePart& part) { return sum + part.count * part.bytes; });
}

DecodeBenchResult bench_decode(const DecodeBenchOptions& options) {
  const std::unique_ptr<Ops> ops = make_ops({Precision::kBf16, options.threads, options.backend});
  ThreadPool pool(options.threads);
  const clockid_t clock = work_clock(pool.threads());
  const auto announce = [&](const std::string& step) {
    if (options.announce) options.announce(step);
  };
  announce("filling the memory with weights");
  RandomModel random(options.measured, {options.memory_bytes, options.experts, clock});
  const Model model = random.model(*ops);
  SequenceState state = random.state_after(options.context);
  PartTimer timer(random.config(), clock);

  const auto one_token = [&](std::uint32_t id, const ForwardOptions& observed) {
    const std::vector<std::uint32_t> ids = {id % static_cast<std::uint32_t>(random.config().vocab_size)};
    SequenceInput input;
    input.ids = ids;
    input.state = &state;
    timer.begin();
    (void)model.forward({&input, 1}, observed);
  };
  one_token(0, {});  // touches what has not been touched
  std::vector<double> rates;
  for (std::uint32_t round = 1; round <= options.rounds; ++round) {
    announce(fmt::format("token {}", round));
    rates.push_back(static_cast<double>(random.bytes()) / random.read_seconds(pool));
    one_token(round * 97, timer.options());
    timer.end();
  }

  DecodeBenchResult result{ops->name(), pool.threads(), median(rates), {}};
  const auto counts = count_parts(options.whole), measured = count_parts(options.measured);
  const auto bytes = bytes_of_parts(random, random.expert_bytes(), options.context);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    result.parts.push_back(
        {kPartNames[kind], counts[kind], measured[kind], median(timer.times(kind)), bytes[kind]});
  }
  return result;
}

}  // namespace perigee
