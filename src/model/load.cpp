// Which tensors make a K3 (docs/model.md, "Tensor names"), and where each goes.
#include <fmt/format.h>

#include <deque>

#include "base/error.h"
#include "base/memory.h"
#include "model/architecture.h"
#include "model/tensor_reader.h"
#include "model/weights.h"

namespace perigee {
namespace {

using Shape = std::vector<std::uint64_t>;

class ResidentExperts : public ExpertSource {
 public:
  ResidentExperts(std::uint64_t layers, std::uint64_t experts)
      : layers_(layers, std::vector<ExpertWeights>(experts)) {}
  ExpertWeights& at(std::uint64_t layer, std::uint64_t expert) { return layers_[layer][expert]; }
  ExpertWeights get(std::uint64_t layer, std::uint64_t expert) override { return layers_[layer][expert]; }
  void release(std::uint64_t) override {}

 private:
  std::vector<std::vector<ExpertWeights>> layers_;
};

class Loader {
 public:
  Loader(const K3Config& config, TensorReader& reader, TextWeights& text, ResidentExperts& experts)
      : config_(config), reader_(reader), text_(text), experts_(experts) {}

  void want_all();
  void finish();  // after the reader has read

 private:
  void want_kda(const std::string& prefix, KdaWeights& w);
  void want_mla(const std::string& prefix, MlaWeights& w);
  void want_mlp(const std::string& prefix, std::uint64_t width, MlpWeights& w);
  void want_moe(std::uint64_t layer, const std::string& prefix, MoeWeights& w);
  void want_layer(std::uint64_t layer, LayerWeights& w);

  void matrix(const std::string& module, std::uint64_t rows, std::uint64_t columns, Matrix& m) {
    reader_.want_matrix(module, rows, columns, m);
  }
  void vector(const std::string& name, const Shape& shape, Vector& v) {
    reader_.want_vector(name, {shape}, v);
  }
  void norm(const std::string& module, Vector& v) { vector(module + ".weight", {config_.hidden_size}, v); }
  void residual_proj(const std::string& module, Vector& v) {
    vector(module + ".weight", {1, config_.hidden_size}, v);
  }

  const K3Config& config_;
  TensorReader& reader_;
  TextWeights& text_;
  ResidentExperts& experts_;
};

void Loader::want_kda(const std::string& prefix, KdaWeights& w) {
  const std::uint64_t hidden = config_.hidden_size, dim = config_.kda_head_dim, heads = config_.kda_num_heads;
  const std::uint64_t width = heads * dim;
  matrix(prefix + "q_proj", width, hidden, w.q_proj);
  matrix(prefix + "k_proj", width, hidden, w.k_proj);
  matrix(prefix + "v_proj", width, hidden, w.v_proj);
  matrix(prefix + "g_proj", width, hidden, w.g_proj);
  matrix(prefix + "f_a_proj", dim, hidden, w.f_a_proj);
  matrix(prefix + "f_b_proj", width, dim, w.f_b_proj);
  matrix(prefix + "b_proj", heads, hidden, w.b_proj);
  matrix(prefix + "o_proj", hidden, width, w.o_proj);
  const Shape taps = {width, 1, config_.short_conv_kernel_size};
  vector(prefix + "q_conv1d.weight", taps, w.q_conv1d);
  vector(prefix + "k_conv1d.weight", taps, w.k_conv1d);
  vector(prefix + "v_conv1d.weight", taps, w.v_conv1d);
  vector(prefix + "dt_bias", {width}, w.dt_bias);
  vector(prefix + "o_norm.weight", {dim}, w.o_norm);
  reader_.want_padded_vector(prefix + "A_log", heads, w.a_log);
}

void Loader::want_mla(const std::string& prefix, MlaWeights& w) {
  const std::uint64_t hidden = config_.hidden_size, heads = config_.num_attention_heads;
  const std::uint64_t key = config_.qk_nope_head_dim + config_.qk_rope_head_dim;
  matrix(prefix + "q_a_proj", config_.q_lora_rank, hidden, w.q_a_proj);
  matrix(prefix + "q_b_proj", heads * key, config_.q_lora_rank, w.q_b_proj);
  matrix(prefix + "kv_a_proj_with_mqa", config_.kv_lora_rank + config_.qk_rope_head_dim, hidden,
         w.kv_a_proj_with_mqa);
  matrix(prefix + "kv_b_proj", heads * (config_.qk_nope_head_dim + config_.v_head_dim), config_.kv_lora_rank,
         w.kv_b_proj);
  matrix(prefix + "g_proj", heads * config_.v_head_dim, hidden, w.g_proj);
  matrix(prefix + "o_proj", hidden, heads * config_.v_head_dim, w.o_proj);
  vector(prefix + "q_a_layernorm.weight", {config_.q_lora_rank}, w.q_a_layernorm);
  vector(prefix + "kv_a_layernorm.weight", {config_.kv_lora_rank}, w.kv_a_layernorm);
}

void Loader::want_mlp(const std::string& prefix, std::uint64_t width, MlpWeights& w) {
  matrix(prefix + "gate_proj", width, config_.hidden_size, w.gate_proj);
  matrix(prefix + "up_proj", width, config_.hidden_size, w.up_proj);
  matrix(prefix + "down_proj", config_.hidden_size, width, w.down_proj);
}

void Loader::want_moe(std::uint64_t layer, const std::string& prefix, MoeWeights& w) {
  const std::uint64_t latent = config_.routed_expert_hidden_size, width = config_.moe_intermediate_size;
  matrix(prefix + "gate", config_.num_experts, config_.hidden_size, w.gate);
  vector(prefix + "gate.e_score_correction_bias", {config_.num_experts}, w.e_score_correction_bias);
  matrix(prefix + "routed_expert_down_proj", latent, config_.hidden_size, w.routed_expert_down_proj);
  matrix(prefix + "routed_expert_up_proj", config_.hidden_size, latent, w.routed_expert_up_proj);
  vector(prefix + "routed_expert_norm.weight", {latent}, w.routed_expert_norm);
  want_mlp(prefix + "shared_experts.", width * config_.num_shared_experts, w.shared_experts);
  for (std::uint64_t e = 0; e < config_.num_experts; ++e) {
    ExpertWeights& expert = experts_.at(layer, e);
    const std::string module = fmt::format("{}experts.{}.", prefix, e);
    matrix(module + "w1", width, latent, expert.w1);
    matrix(module + "w2", latent, width, expert.w2);
    matrix(module + "w3", width, latent, expert.w3);
  }
}

void Loader::want_layer(std::uint64_t layer, LayerWeights& w) {
  const std::string prefix = fmt::format("language_model.model.layers.{}.", layer);
  norm(prefix + "input_layernorm", w.input_layernorm);
  norm(prefix + "post_attention_layernorm", w.post_attention_layernorm);
  norm(prefix + "self_attention_res_norm", w.self_attention_res_norm);
  residual_proj(prefix + "self_attention_res_proj", w.self_attention_res_proj);
  norm(prefix + "mlp_res_norm", w.mlp_res_norm);
  residual_proj(prefix + "mlp_res_proj", w.mlp_res_proj);
  if (config_.is_mla[layer]) {
    want_mla(prefix + "self_attn.", w.attention.emplace<MlaWeights>());
  } else {
    want_kda(prefix + "self_attn.", w.attention.emplace<KdaWeights>());
  }
  if (config_.is_moe(layer)) {
    want_moe(layer, prefix + "block_sparse_moe.", w.ffn.emplace<MoeWeights>());
  } else {
    want_mlp(prefix + "mlp.", config_.intermediate_size, w.ffn.emplace<MlpWeights>());
  }
}

void Loader::want_all() {
  matrix("language_model.model.embed_tokens", config_.vocab_size, config_.hidden_size, text_.embed_tokens);
  matrix("language_model.lm_head", config_.vocab_size, config_.hidden_size, text_.lm_head);
  norm("language_model.model.norm", text_.norm);
  norm("language_model.model.output_attn_res_norm", text_.output_attn_res_norm);
  residual_proj("language_model.model.output_attn_res_proj", text_.output_attn_res_proj);
  text_.layers.resize(config_.num_hidden_layers);
  for (std::uint64_t i = 0; i < config_.num_hidden_layers; ++i) want_layer(i, text_.layers[i]);
  reader_.check_nothing_left(config_.num_hidden_layers);
}

void Loader::finish() {
  for (std::size_t i = 0; i < text_.layers.size(); ++i) {
    auto* kda = std::get_if<KdaWeights>(&text_.layers[i].attention);
    if (kda == nullptr) continue;
    TensorReader::cut_zero_padding(fmt::format("language_model.model.layers.{}.self_attn.A_log", i),
                                   config_.kda_num_heads, kda->a_log);
  }
}

void check_memory(std::uint64_t needed, std::uint64_t limit) {
  const std::uint64_t available = limit > 0 ? limit : available_memory_bytes();
  if (needed > available) {
    fail(ErrorCode::kNoSpace,
         "the weights need {:.1f} GB of memory and {:.1f} GB are available; a smaller checkpoint, or a "
         "machine with "
         "more memory, is needed",
         static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9);
  }
}

}  // namespace

struct LoadedModel::Storage {
  Storage(K3Config loaded)
      : config(std::move(loaded)), experts(config.num_hidden_layers, config.num_experts) {}
  K3Config config;
  TextWeights text;
  ResidentExperts experts;
  WeightArena arena;
  std::deque<std::vector<float>> vectors;
};

LoadedModel LoadedModel::load(const std::filesystem::path& checkpoint, const Options& options) {
  auto storage = std::make_unique<Storage>(load_config(checkpoint / "config.json"));
  check_architecture(checkpoint / "config.json");
  TensorReader reader(checkpoint);
  Loader loader(storage->config, reader, storage->text, storage->experts);
  loader.want_all();
  check_memory(reader.memory_bytes(), options.memory_limit_bytes);
  reader.read(storage->arena, options.progress);
  storage->vectors = reader.take_vectors();
  loader.finish();
  return LoadedModel(std::move(storage));
}

LoadedModel::LoadedModel(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
LoadedModel::~LoadedModel() = default;
LoadedModel::LoadedModel(LoadedModel&&) noexcept = default;
LoadedModel& LoadedModel::operator=(LoadedModel&&) noexcept = default;

const K3Config& LoadedModel::config() const {
  return storage_->config;
}
const TextWeights& LoadedModel::text() const {
  return storage_->text;
}
ExpertSource& LoadedModel::experts() const {
  return storage_->experts;
}
std::uint64_t LoadedModel::bytes() const {
  return storage_->arena.bytes();
}

}  // namespace perigee
