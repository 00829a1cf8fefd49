#include "model/fingerprint.h"

#include <fmt/format.h>

#include <array>

#include "base/hash.h"

namespace perigee {
namespace {

class WeightHash {
 public:
  void add(std::uint64_t number) { hash_.update(std::as_bytes(std::span(&number, 1))); }

  void add(Vector values) {
    add(values.size());
    hash_.update(std::as_bytes(values));
  }

  // The first values: half a byte each is what the narrowest format has.
  void add(const Matrix& matrix) {
    add(static_cast<std::uint64_t>(matrix.format));
    add(matrix.rows);
    add(matrix.columns);
    hash_.update(std::as_bytes(std::span(&matrix.global_scale, 1)));
    hash_.update({matrix.values, matrix.columns / 2});
  }

  void add(const KdaWeights& w) {
    for (const Matrix& m :
         {w.q_proj, w.k_proj, w.v_proj, w.g_proj, w.f_a_proj, w.f_b_proj, w.b_proj, w.o_proj})
      add(m);
    for (const Vector v : {w.q_conv1d, w.k_conv1d, w.v_conv1d, w.dt_bias, w.a_log, w.o_norm}) add(v);
  }

  void add(const MlaWeights& w) {
    for (const Matrix& m : {w.q_a_proj, w.q_b_proj, w.kv_a_proj_with_mqa, w.kv_b_proj, w.g_proj, w.o_proj})
      add(m);
    add(w.q_a_layernorm);
    add(w.kv_a_layernorm);
  }

  void add(const MlpWeights& w) {
    for (const Matrix& m : {w.gate_proj, w.up_proj, w.down_proj}) add(m);
  }

  void add(const MoeWeights& w) {
    for (const Matrix& m : {w.gate, w.routed_expert_down_proj, w.routed_expert_up_proj}) add(m);
    add(w.e_score_correction_bias);
    add(w.routed_expert_norm);
    add(w.shared_experts);
  }

  void add(const LayerWeights& w) {
    for (const Vector v : {w.input_layernorm, w.post_attention_layernorm, w.self_attention_res_norm,
                           w.self_attention_res_proj, w.mlp_res_norm, w.mlp_res_proj})
      add(v);
    std::visit([this](const auto& attention) { add(attention); }, w.attention);
    std::visit([this](const auto& ffn) { add(ffn); }, w.ffn);
  }

  void add_first_expert(ExpertSource& experts, std::uint64_t layer) {
    constexpr std::array<std::uint32_t, 1> kFirst = {0};
    const std::unique_ptr<ExpertLease> lease = experts.acquire(layer, kFirst);
    const auto expert = lease->next();
    for (const Matrix& m : {expert->weights.w1, expert->weights.w2, expert->weights.w3}) add(m);
  }

  std::string text() const { return fmt::format("{:016x}", hash_.value()); }

 private:
  Xxh3 hash_;
};

}  // namespace

std::string model_fingerprint(const LoadedModel& model, Precision precision) {
  WeightHash fingerprint;
  fingerprint.add(static_cast<std::uint64_t>(precision));
  const TextWeights& text = model.text();
  for (const Matrix& m : {text.embed_tokens, text.lm_head}) fingerprint.add(m);
  for (const Vector v : {text.norm, text.output_attn_res_norm, text.output_attn_res_proj}) fingerprint.add(v);
  std::vector<std::uint64_t> with_experts;
  for (std::uint64_t i = 0; i < text.layers.size(); ++i) {
    fingerprint.add(text.layers[i]);
    if (std::holds_alternative<MoeWeights>(text.layers[i].ffn)) with_experts.push_back(i);
  }
  if (!with_experts.empty()) {
    fingerprint.add_first_expert(model.experts(), with_experts.front());
    fingerprint.add_first_expert(model.experts(), with_experts.back());
  }
  return fingerprint.text();
}

}  // namespace perigee
