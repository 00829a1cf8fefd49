#include "model/layers.h"

namespace perigee {
namespace {

// eps of the two LoRA norms of MLA: the class default of the released code, not rms_norm_eps (docs/model.md).
constexpr float kLoraNormEps = 1e-6f;

KdaParameters kda_parameters(const K3Config& config, const KdaWeights& w) {
  return {.heads = config.kda_num_heads,
          .head_dim = config.kda_head_dim,
          .gate_lower_bound = static_cast<float>(config.gate_lower_bound),
          .a_log = w.a_log.data(),
          .dt_bias = w.dt_bias.data()};
}

MlaParameters mla_parameters(const K3Config& config) {
  return {.heads = config.num_attention_heads,
          .nope_dim = config.qk_nope_head_dim,
          .rope_dim = config.qk_rope_head_dim,
          .value_dim = config.v_head_dim,
          .latent_dim = config.kv_lora_rank};
}

}  // namespace

Tensor kda_attention(const StepContext& step, std::size_t layer, const KdaWeights& w, ConstRows x) {
  const Ops& ops = step.ops;
  const std::size_t taps = step.config.short_conv_kernel_size;
  const Tensor q_in = linear(ops, w.q_proj, x);
  const Tensor k_in = linear(ops, w.k_proj, x);
  const Tensor v_in = linear(ops, w.v_proj, x);
  const Tensor g = linear(ops, w.f_b_proj, linear(ops, w.f_a_proj, x));
  const Tensor b = linear(ops, w.b_proj, x);
  const Tensor z = linear(ops, w.g_proj, x);

  Tensor q(x.rows, w.q_proj.rows), k(x.rows, w.k_proj.rows), v(x.rows, w.v_proj.rows),
      o(x.rows, w.v_proj.rows);
  for (const auto& [begin, count, position, state] : step.sequences) {
    auto& kda = std::get<KdaState>(state->layers[layer]);
    ops.short_convolution(rows_of(q_in, begin, count), w.q_conv1d, taps, kda.conv_q,
                          rows_of(q, begin, count));
    ops.short_convolution(rows_of(k_in, begin, count), w.k_conv1d, taps, kda.conv_k,
                          rows_of(k, begin, count));
    ops.short_convolution(rows_of(v_in, begin, count), w.v_conv1d, taps, kda.conv_v,
                          rows_of(v, begin, count));
    ops.kda(rows_of(q, begin, count), rows_of(k, begin, count), rows_of(v, begin, count),
            rows_of(g, begin, count), rows_of(b, begin, count), kda_parameters(step.config, w), kda.s,
            rows_of(o, begin, count));
  }
  Tensor gated(o.rows(), o.width());
  ops.gated_head_norm(o, z, w.o_norm, static_cast<float>(step.config.rms_norm_eps), gated);
  return linear(ops, w.o_proj, gated);
}

Tensor mla_attention(const StepContext& step, std::size_t layer, const MlaWeights& w, ConstRows x) {
  const Ops& ops = step.ops;
  const std::size_t latent = step.config.kv_lora_rank;
  const Tensor q_a = linear(ops, w.q_a_proj, x);
  Tensor q_normed(x.rows, w.q_a_proj.rows);
  ops.rms_norm(q_a, w.q_a_layernorm, kLoraNormEps, q_normed);
  const Tensor q = linear(ops, w.q_b_proj, q_normed);

  // One cache row a token: the normalised latent, then the shared key dimensions as they are.
  Tensor c = linear(ops, w.kv_a_proj_with_mqa, x);
  Tensor c_kv(x.rows, latent), latent_normed(x.rows, latent);
  for (std::size_t t = 0; t < x.rows; ++t) std::copy_n(c[t], latent, c_kv[t]);
  ops.rms_norm(c_kv, w.kv_a_layernorm, kLoraNormEps, latent_normed);
  for (std::size_t t = 0; t < x.rows; ++t) std::copy_n(latent_normed[t], latent, c[t]);

  Tensor a(x.rows, w.o_proj.columns);
  for (const auto& [begin, count, position, state] : step.sequences) {
    auto& cache = std::get<MlaCache>(state->layers[layer]);
    for (std::size_t t = 0; t < count; ++t)
      cache.write(position + t, {c[begin + t], cache.width()}, ops.precision());
    ops.mla(rows_of(q, begin, count), w.kv_b_proj, cache.view(position + count), position,
            mla_parameters(step.config), rows_of(a, begin, count));
  }
  Tensor gated(a.rows(), a.width());
  ops.sigmoid_gate(a, linear(ops, w.g_proj, x), gated);
  return linear(ops, w.o_proj, gated);
}

}  // namespace perigee
