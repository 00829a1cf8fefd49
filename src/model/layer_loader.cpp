#include "model/layer_loader.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/memory.h"

namespace perigee {

void LayerLoader::want_kda(const std::string& prefix, KdaWeights& w) {
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

void LayerLoader::want_mla(const std::string& prefix, MlaWeights& w) {
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

void LayerLoader::want_mlp(const std::string& prefix, std::uint64_t width, MlpWeights& w) {
  matrix(prefix + "gate_proj", width, config_.hidden_size, w.gate_proj);
  matrix(prefix + "up_proj", width, config_.hidden_size, w.up_proj);
  matrix(prefix + "down_proj", config_.hidden_size, width, w.down_proj);
}

void LayerLoader::want_moe(const std::string& prefix, MoeWeights& w) {
  const std::uint64_t latent = config_.routed_expert_hidden_size, width = config_.moe_intermediate_size;
  matrix(prefix + "gate", config_.num_experts, config_.hidden_size, w.gate);
  vector(prefix + "gate.e_score_correction_bias", {config_.num_experts}, w.e_score_correction_bias);
  matrix(prefix + "routed_expert_down_proj", latent, config_.hidden_size, w.routed_expert_down_proj);
  matrix(prefix + "routed_expert_up_proj", config_.hidden_size, latent, w.routed_expert_up_proj);
  vector(prefix + "routed_expert_norm.weight", {latent}, w.routed_expert_norm);
  want_mlp(prefix + "shared_experts.", width * config_.num_shared_experts, w.shared_experts);
}

void LayerLoader::want_layer(std::uint64_t layer, LayerWeights& w) {
  const std::string prefix = layer_prefix(layer);
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
    want_moe(prefix + "block_sparse_moe.", w.ffn.emplace<MoeWeights>());
  } else {
    want_mlp(prefix + "mlp.", config_.intermediate_size, w.ffn.emplace<MlpWeights>());
  }
}

void LayerLoader::want_expert(std::uint64_t layer, std::uint64_t expert, ExpertWeights& w) {
  const std::uint64_t latent = config_.routed_expert_hidden_size, width = config_.moe_intermediate_size;
  const std::string module = fmt::format("{}block_sparse_moe.experts.{}.", layer_prefix(layer), expert);
  matrix(module + "w1", width, latent, w.w1);
  matrix(module + "w2", latent, width, w.w2);
  matrix(module + "w3", width, latent, w.w3);
}

void LayerLoader::finish_layer(std::uint64_t layer, LayerWeights& w) const {
  auto* kda = std::get_if<KdaWeights>(&w.attention);
  if (kda == nullptr) return;
  TensorReader::cut_zero_padding(layer_prefix(layer) + "self_attn.A_log", config_.kda_num_heads, kda->a_log);
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

}  // namespace perigee
