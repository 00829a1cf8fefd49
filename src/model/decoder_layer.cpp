#include "model/layers.h"

namespace perigee {
namespace {

Tensor attention(const StepContext& step, std::size_t layer, const LayerWeights& w, ConstRows x) {
  if (const auto* mla = std::get_if<MlaWeights>(&w.attention)) return mla_attention(step, layer, *mla, x);
  return kda_attention(step, layer, std::get<KdaWeights>(w.attention), x);
}

Tensor ffn(const StepContext& step, std::size_t layer, const LayerWeights& w, ConstRows x,
           const ResidualStream& stream) {
  const auto look_ahead = [&] { foresee_experts(step, layer + 1, stream); };
  if (const auto* moe = std::get_if<MoeWeights>(&w.ffn)) return latent_moe(step, layer, *moe, x, look_ahead);
  look_ahead();
  return situ_mlp(step, std::get<MlpWeights>(w.ffn), x);
}

}  // namespace

Tensor attention_residual(const StepContext& step, const ResidualStream& stream, Vector norm, Vector proj) {
  std::vector<ConstRows> sources(stream.bank.begin(), stream.bank.end());
  if (stream.prefix.rows() > 0) sources.push_back(stream.prefix);
  Tensor h(sources.front().rows, sources.front().width);
  step.ops.attention_residual(sources, norm, proj, static_cast<float>(step.config.rms_norm_eps), h);
  return h;
}

Tensor rms_norm(const StepContext& step, ConstRows x, Vector weight) {
  Tensor y(x.rows, x.width);
  step.ops.rms_norm(x, weight, static_cast<float>(step.config.rms_norm_eps), y);
  return y;
}

void decoder_layer(const StepContext& step, std::size_t i, const LayerWeights& w, ResidualStream& stream) {
  const int layer = static_cast<int>(i);
  auto& [bank, prefix] = stream;

  Tensor h = bank.empty()
                 ? prefix
                 : attention_residual(step, stream, w.self_attention_res_norm, w.self_attention_res_proj);
  if (i % step.config.attn_res_block_size == 0) {  // a block starts: the prefix becomes a block residual
    bank.push_back(std::move(prefix));
    prefix = Tensor();
  }
  const Tensor attn_in = rms_norm(step, h, w.input_layernorm);
  step.observe("attn_in", layer, attn_in);
  Tensor a = attention(step, i, w, attn_in);
  step.observe("attn_out", layer, a);
  if (prefix.rows() == 0) {
    prefix = std::move(a);
  } else {
    step.ops.add(a, prefix);
  }

  h = attention_residual(step, stream, w.mlp_res_norm, w.mlp_res_proj);
  const Tensor ffn_in = rms_norm(step, h, w.post_attention_layernorm);
  step.observe("ffn_in", layer, ffn_in);
  const Tensor m = ffn(step, i, w, ffn_in, stream);
  step.observe("ffn_out", layer, m);
  step.ops.add(m, prefix);
  step.observe("prefix", layer, prefix);
}

}  // namespace perigee
