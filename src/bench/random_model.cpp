#include "bench/random_model.h"

#include <algorithm>

#include "bench/machine_limits.h"
#include "bench/stopwatch.h"

namespace perigee {
namespace {

// Of the memory, what the trunk gets; the rest is the experts'.
constexpr double kTrunkPart = 0.5;

std::uint64_t trunk_bytes(std::uint64_t memory_bytes) {
  return static_cast<std::uint64_t>(kTrunkPart * static_cast<double>(memory_bytes));
}

}  // namespace

K3Config first_layers(K3Config config, std::size_t layers) {
  config.num_hidden_layers = std::min<std::uint64_t>(layers, config.num_hidden_layers);
  config.is_mla.resize(config.num_hidden_layers);
  return config;
}

class RingExperts::Lease : public ExpertLease {
 public:
  Lease(RingExperts& source, std::size_t count) : source_(source), count_(count) {}
  ~Lease() override { source_.lease_seconds_ += clock_seconds(source_.clock_) - begin_; }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::optional<Arrived> next() override {
    if (next_ == count_) return std::nullopt;
    ++source_.given_;
    const std::size_t latent = source_.config_.routed_expert_hidden_size;
    const std::size_t width = source_.config_.moe_intermediate_size;
    ExpertWeights weights;  // side by side in this order, as in the release
    weights.w1 = source_.ring_.take(width, latent);
    weights.w2 = source_.ring_.take(latent, width);
    weights.w3 = source_.ring_.take(width, latent);
    return Arrived{next_++, weights};
  }

 private:
  RingExperts& source_;
  std::size_t count_;
  std::size_t next_ = 0;
  double begin_ = clock_seconds(source_.clock_);
};

std::unique_ptr<ExpertLease> RingExperts::acquire(std::uint64_t, std::span<const std::uint32_t> experts) {
  return std::make_unique<Lease>(*this, experts.size());
}

RandomModel::RandomModel(const K3Config& config, const RandomModelOptions& options)
    : config_(config),
      expert_format_(options.experts),
      trunk_(WeightFormat::kBf16, trunk_bytes(options.memory_bytes)),
      expert_ring_(options.experts, options.memory_bytes - trunk_bytes(options.memory_bytes)),
      experts_(config_, expert_ring_, options.clock) {
  for (std::size_t i = 0; i < config_.num_hidden_layers; ++i) text_.layers.push_back(layer(i));
  text_.lm_head = trunk_.take(config_.vocab_size, config_.hidden_size);
  text_.embed_tokens = text_.lm_head;  // one row a token is read
  text_.norm = text_.output_attn_res_norm = vector(config_.hidden_size, 1);
  text_.output_attn_res_proj = random_vector(config_.hidden_size, 0.02f);
}

Vector RandomModel::vector(std::size_t size, float value) {
  return vectors_.emplace_back(size, value);
}

Vector RandomModel::random_vector(std::size_t size, float deviation) {
  const Tensor rows = random_rows(1, size, vectors_.size());
  std::vector<float>& values = vectors_.emplace_back(rows.values().begin(), rows.values().end());
  for (float& value : values) value *= deviation;
  return values;
}

KdaWeights RandomModel::kda() {
  const std::size_t hidden = config_.hidden_size, dim = config_.kda_head_dim, heads = config_.kda_num_heads;
  const std::size_t width = heads * dim, taps = width * config_.short_conv_kernel_size;
  return {.q_proj = trunk_.take(width, hidden),
          .k_proj = trunk_.take(width, hidden),
          .v_proj = trunk_.take(width, hidden),
          .g_proj = trunk_.take(width, hidden),
          .f_a_proj = trunk_.take(dim, hidden),
          .f_b_proj = trunk_.take(width, dim),
          .b_proj = trunk_.take(heads, hidden),
          .o_proj = trunk_.take(hidden, width),
          .q_conv1d = random_vector(taps, 0.5f),
          .k_conv1d = random_vector(taps, 0.5f),
          .v_conv1d = random_vector(taps, 0.5f),
          .dt_bias = vector(width, -3),
          .a_log = vector(heads, 1),
          .o_norm = vector(dim, 1)};
}

MlaWeights RandomModel::mla() {
  const std::size_t hidden = config_.hidden_size, heads = config_.num_attention_heads;
  const std::size_t key = config_.qk_nope_head_dim + config_.qk_rope_head_dim;
  return {
      .q_a_proj = trunk_.take(config_.q_lora_rank, hidden),
      .q_b_proj = trunk_.take(heads * key, config_.q_lora_rank),
      .kv_a_proj_with_mqa = trunk_.take(config_.kv_lora_rank + config_.qk_rope_head_dim, hidden),
      .kv_b_proj = trunk_.take(heads * (config_.qk_nope_head_dim + config_.v_head_dim), config_.kv_lora_rank),
      .g_proj = trunk_.take(heads * config_.v_head_dim, hidden),
      .o_proj = trunk_.take(hidden, heads * config_.v_head_dim),
      .q_a_layernorm = vector(config_.q_lora_rank, 1),
      .kv_a_layernorm = vector(config_.kv_lora_rank, 1)};
}

MlpWeights RandomModel::mlp(std::size_t width) {
  return {.gate_proj = trunk_.take(width, config_.hidden_size),
          .up_proj = trunk_.take(width, config_.hidden_size),
          .down_proj = trunk_.take(config_.hidden_size, width)};
}

MoeWeights RandomModel::moe() {
  const std::size_t hidden = config_.hidden_size, latent = config_.routed_expert_hidden_size;
  return {.gate = trunk_.take(config_.num_experts, hidden),
          .e_score_correction_bias = vector(config_.num_experts, 0),
          .routed_expert_down_proj = trunk_.take(latent, hidden),
          .routed_expert_up_proj = trunk_.take(hidden, latent),
          .routed_expert_norm = vector(latent, 1),
          .shared_experts = mlp(config_.moe_intermediate_size * config_.num_shared_experts)};
}

LayerWeights RandomModel::layer(std::size_t i) {
  LayerWeights w;
  const std::size_t hidden = config_.hidden_size;
  w.input_layernorm = w.post_attention_layernorm = vector(hidden, 1);
  w.self_attention_res_norm = w.mlp_res_norm = w.input_layernorm;
  w.self_attention_res_proj = random_vector(hidden, 0.02f);
  w.mlp_res_proj = random_vector(hidden, 0.02f);
  if (config_.is_mla[i]) {
    w.attention = mla();
  } else {
    w.attention = kda();
  }
  if (config_.is_moe(i)) {
    w.ffn = moe();
  } else {
    w.ffn = mlp(config_.intermediate_size);
  }
  return w;
}

SequenceState RandomModel::state_after(std::size_t positions) const {
  SequenceState state(config_);
  state.position = positions;
  for (auto& layer : state.layers) {
    if (auto* cache = std::get_if<MlaCache>(&layer)) {
      const Tensor row = random_rows(1, cache->width(), positions);
      for (std::size_t p = 0; p < positions; ++p) cache->write(p, row.values(), Precision::kBf16);
    } else {
      std::ranges::fill(std::get<KdaState>(layer).s.values(), 0x1p-6f);
    }
  }
  return state;
}

std::uint64_t RandomModel::expert_bytes() const {
  const std::size_t latent = config_.routed_expert_hidden_size, width = config_.moe_intermediate_size;
  Matrix projection{.format = expert_format_, .rows = width, .columns = latent};
  return 3 * matrix_bytes(projection);
}

double RandomModel::read_seconds(ThreadPool& pool) const {
  return read_stream_seconds(trunk_.memory(), pool) + read_stream_seconds(expert_ring_.memory(), pool);
}

}  // namespace perigee
