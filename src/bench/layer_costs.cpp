#include "bench/layer_costs.h"

#include "model/state.h"

namespace perigee {
namespace {

std::uint64_t bytes_of(const std::vector<Matrix>& matrices) {
  std::uint64_t bytes = 0;
  for (const Matrix& matrix : matrices) bytes += matrix_bytes(matrix);
  return bytes;
}

double macs_of(const std::vector<Matrix>& matrices) {
  double macs = 0;
  for (const Matrix& matrix : matrices)
    macs += static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
  return macs;
}

std::vector<Matrix> matrices_of(const MlpWeights& w) {
  return {w.gate_proj, w.up_proj, w.down_proj};
}

}  // namespace

std::vector<Matrix> attention_matrices(const LayerWeights& w) {
  if (const auto* mla = std::get_if<MlaWeights>(&w.attention)) {
    return {mla->q_a_proj, mla->q_b_proj, mla->kv_a_proj_with_mqa, mla->kv_b_proj, mla->g_proj, mla->o_proj};
  }
  const auto& kda = std::get<KdaWeights>(w.attention);
  return {kda.q_proj, kda.k_proj, kda.v_proj, kda.g_proj, kda.f_a_proj, kda.f_b_proj, kda.b_proj, kda.o_proj};
}

std::vector<Matrix> ffn_matrices(const LayerWeights& w) {
  if (const auto* dense = std::get_if<MlpWeights>(&w.ffn)) return matrices_of(*dense);
  const auto& moe = std::get<MoeWeights>(w.ffn);
  return {moe.gate,
          moe.routed_expert_down_proj,
          moe.shared_experts.gate_proj,
          moe.shared_experts.up_proj,
          moe.shared_experts.down_proj,
          moe.routed_expert_up_proj};
}

std::uint64_t attention_bytes(const K3Config& config, const LayerWeights& w, std::size_t positions) {
  const std::uint64_t weights = bytes_of(attention_matrices(w));
  if (std::holds_alternative<MlaWeights>(w.attention))
    return weights +
           positions * (config.kv_lora_rank + config.qk_rope_head_dim) * cache_value_bytes(Precision::kBf16);
  return weights + 2 * config.kda_num_heads * config.kda_head_dim * config.kda_head_dim * sizeof(float);
}

std::uint64_t ffn_bytes(const LayerWeights& w) {
  return bytes_of(ffn_matrices(w));
}

double attention_macs(const K3Config& config, const LayerWeights& w, std::size_t position,
                      std::size_t tokens) {
  const auto count = static_cast<double>(tokens);
  const double linear = count * macs_of(attention_matrices(w));
  if (std::holds_alternative<MlaWeights>(w.attention)) {
    const double seen = count * (static_cast<double>(position) + (count + 1) / 2);  // positions, all tokens
    const auto per_position = static_cast<double>(2 * config.kv_lora_rank + config.qk_rope_head_dim);
    return linear + seen * static_cast<double>(config.num_attention_heads) * per_position;
  }
  // S decays, k'S is taken off, k times the difference is added, q'S is the output: docs/model.md, "KDA".
  constexpr double kTimesThroughState = 4;
  const auto dim = static_cast<double>(config.kda_head_dim);
  return linear + count * kTimesThroughState * static_cast<double>(config.kda_num_heads) * dim * dim;
}

double ffn_macs(const LayerWeights& w) {
  return macs_of(ffn_matrices(w));
}

double mlp_macs(const MlpWeights& w) {
  return macs_of(matrices_of(w));
}

double routed_macs(const K3Config& config) {
  return 3.0 * static_cast<double>(config.num_experts_per_token) *
         static_cast<double>(config.moe_intermediate_size) *
         static_cast<double>(config.routed_expert_hidden_size);
}

}  // namespace perigee
