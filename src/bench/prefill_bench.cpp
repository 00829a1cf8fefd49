#include "bench/prefill_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/thread_pool.h"
#include "bench/dense_products.h"
#include "bench/layer_costs.h"
#include "bench/random_model.h"
#include "bench/statistics.h"
#include "bench/stopwatch.h"
#include "model/layers.h"

namespace perigee {
namespace {

constexpr std::size_t kKdaLayer = 0;
constexpr std::size_t kMlaLayer = 1;

// A KDA and an MLA layer, both with experts; the head is as small as a vocabulary may be, because a prompt
// needs it once.
K3Config two_layers(K3Config config) {
  config.num_hidden_layers = 2;
  config.is_mla = {false, true};
  config.first_k_dense_replace = 0;
  config.vocab_size = std::min<std::uint64_t>(config.vocab_size, 256);
  return config;
}

// Everything that stays the same while prompts of several lengths run.
class PrefillRun {
 public:
  explicit PrefillRun(const PrefillBenchOptions& options)
      : options_(options),
        ops_(make_ops({Precision::kBf16, options.threads, options.backend})),
        pool_(options.threads),
        clock_(work_clock(pool_.threads())),
        random_(two_layers(options.sizes), {options.memory_bytes, options.experts, clock_}) {}

  PrefillBenchResult run();

 private:
  struct Times {
    std::vector<double> kda, mla, moe, routed, shared, layers;
  };

  void announce(const std::string& step) const {
    if (options_.announce) options_.announce(step);
  }
  void measure_prompt(std::size_t tokens);
  void one_prompt(std::size_t tokens, Times& times);
  void measure_products(std::size_t tokens);
  void measure_product(std::string name, WeightRing& ring, const Matrix& like, std::size_t tokens);
  std::optional<double> dense_rate(WeightFormat format, const Matrix& like, std::size_t tokens) const;

  template <typename Work>
  double median_seconds(Work&& work) const {
    work();  // wakes the threads, touches what has not been touched
    std::vector<double> seconds;
    for (unsigned round = 0; round < options_.rounds; ++round)
      seconds.push_back(work_seconds(pool_.threads(), work));
    return median(seconds);
  }

  const PrefillBenchOptions& options_;
  const std::unique_ptr<Ops> ops_;
  ThreadPool pool_;
  const clockid_t clock_;
  RandomModel random_;
  std::vector<double> peaks_;
  PrefillBenchResult result_;
};

// The whole forward pass, cut at the names that it calls out (model/forward.h, Observer).
void PrefillRun::one_prompt(std::size_t tokens, Times& times) {
  SequenceState state = random_.state_after(options_.context);
  std::vector<std::uint32_t> ids(tokens);
  for (std::size_t i = 0; i < tokens; ++i)
    ids[i] = static_cast<std::uint32_t>(i % random_.config().vocab_size);
  double last = 0, begin = 0, end = 0, moe = 0;
  ForwardOptions observed;
  observed.observe = [&](std::string_view name, int layer, ConstRows) {
    const double now = clock_seconds(clock_);
    const double lap = now - std::exchange(last, now);
    if (name == "attn_in" && layer == kKdaLayer) begin = now;
    if (name == "attn_out") (layer == kMlaLayer ? times.mla : times.kda).push_back(lap);
    if (name == "ffn_out") moe += lap;
    if (name == "prefix") end = now;
  };
  SequenceInput input;
  input.ids = ids;
  input.state = &state;
  const double leased = random_.experts().lease_seconds();
  (void)random_.model(*ops_).forward({&input, 1}, observed);
  times.moe.push_back(moe / 2);
  times.routed.push_back((random_.experts().lease_seconds() - leased) / 2);
  times.layers.push_back(end - begin);

  // The shared experts once more by themselves: the forward pass does not call them out.
  const Tensor x = random_rows(tokens, random_.config().hidden_size, 1);
  const StepContext step{random_.config(), *ops_, random_.experts(), {}, observed};
  const auto& ffn = std::get<MoeWeights>(random_.text().layers[kKdaLayer].ffn);
  times.shared.push_back(work_seconds(pool_.threads(), [&] { (void)situ_mlp(step, ffn.shared_experts, x); }));
}

void PrefillRun::measure_prompt(std::size_t tokens) {
  Times times;
  for (unsigned round = 0; round < options_.rounds; ++round) {
    announce(fmt::format("prompt of {} tokens, round {}", tokens, round + 1));
    peaks_.push_back(measure_peak(ops_->name(), pool_));
    one_prompt(tokens, times);
  }
  const K3Config& config = random_.config();
  const LayerWeights& kda = random_.text().layers[kKdaLayer];
  const LayerWeights& mla = random_.text().layers[kMlaLayer];
  const auto count = static_cast<double>(tokens);
  const double kda_macs = attention_macs(config, kda, options_.context, tokens);
  const double mla_macs = attention_macs(config, mla, options_.context, tokens);
  const double routed = count * routed_macs(config);
  const double moe = count * ffn_macs(kda) + routed;
  const double shared = count * mlp_macs(std::get<MoeWeights>(kda.ffn).shared_experts);
  const auto add = [&](const char* name, double macs, const std::vector<double>& seconds) {
    result_.parts.push_back({name, tokens, macs, median(seconds)});
  };
  add("routed experts", routed, times.routed);
  add("shared experts", shared, times.shared);
  add("latent MoE, all of it", moe, times.moe);
  add("KDA attention", kda_macs, times.kda);
  add("MLA attention", mla_macs, times.mla);
  add("a KDA and an MLA layer", kda_macs + mla_macs + 2 * moe, times.layers);
}

std::optional<double> PrefillRun::dense_rate(WeightFormat format, const Matrix& like,
                                             std::size_t tokens) const {
  const std::unique_ptr<DenseProduct> product =
      make_dense_product(format, tokens, like.rows, like.columns, pool_.threads());
  if (!product) return std::nullopt;
  const double macs = static_cast<double>(like.rows * like.columns) * static_cast<double>(tokens);
  return macs / median_seconds([&product] { product->run(); });
}

void PrefillRun::measure_product(std::string name, WeightRing& ring, const Matrix& like, std::size_t tokens) {
  announce(fmt::format("{}, {} tokens", name, tokens));
  const Tensor x = random_rows(tokens, like.columns, 1);
  Tensor y(tokens, like.rows);
  const double macs = static_cast<double>(like.rows * like.columns) * static_cast<double>(tokens);
  const double seconds = median_seconds([&] { ops_->linear(ring.take(like.rows, like.columns), x, y); });
  result_.products.push_back({std::move(name), like.format, like.rows, like.columns, tokens, macs / seconds,
                              dense_rate(WeightFormat::kF32, like, tokens),
                              dense_rate(WeightFormat::kBf16, like, tokens)});
}

void PrefillRun::measure_products(std::size_t tokens) {
  const K3Config& config = random_.config();
  const auto& kda = std::get<KdaWeights>(random_.text().layers[kKdaLayer].attention);
  const auto& moe = std::get<MoeWeights>(random_.text().layers[kKdaLayer].ffn);
  const std::size_t width = config.moe_intermediate_size, latent = config.routed_expert_hidden_size;
  const std::size_t of_expert =
      std::max<std::size_t>(1, tokens * config.num_experts_per_token / config.num_experts);
  Matrix expert{.format = options_.experts, .rows = width, .columns = latent};
  measure_product("expert w1, w3", random_.expert_ring(), expert, of_expert);
  measure_product("shared gate, up", random_.trunk(), moe.shared_experts.gate_proj, tokens);
  measure_product("KDA q, k, v, g", random_.trunk(), kda.q_proj, tokens);
}

PrefillBenchResult PrefillRun::run() {
  for (const std::size_t tokens : options_.tokens) {
    measure_prompt(tokens);
    measure_products(tokens);
  }
  result_.backend = ops_->name();
  result_.threads = pool_.threads();
  result_.peak = median(peaks_);
  result_.peaks = measure_compute_peaks(pool_, options_.rounds);
  return std::move(result_);
}

}  // namespace

PrefillBenchResult bench_prefill(const PrefillBenchOptions& options) {
  return PrefillRun(options).run();
}

}  // namespace perigee
