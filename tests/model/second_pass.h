// The forward pass stated a second time, from docs/model.md and over the same layers, with switches for the
// mistakes that ops cannot make: those in the order of things. Without a mistake it must give the bits of
// Model::forward. For tests only.
#pragma once

#include "model/layers.h"

namespace perigee::test {

enum class PassMistake {
  kNone,
  kNoFinalResidual,
  kBlockStartOffByOne,
  kPrefixNotReset,
  kResidualWrittenOverThePrefix,
};

class SecondPass {
 public:
  SecondPass(const LoadedModel& weights, const Ops& ops, ExpertSource& experts, PassMistake mistake)
      : config_(weights.config()), text_(weights.text()), ops_(ops), experts_(experts), mistake_(mistake) {}

  // Of every token, float32.
  Tensor logits(std::span<const std::uint32_t> ids, const ForwardOptions& options = {}) {
    SequenceState state(config_);
    const SequenceRows rows{0, ids.size(), 0, &state};
    const StepContext step{config_, ops_, experts_, {&rows, 1}, options};
    p_ = Tensor(ids.size(), config_.hidden_size);
    ops_.embed(text_.embed_tokens, ids, p_);
    for (std::size_t i = 0; i < text_.layers.size(); ++i) layer(step, i);
    const Tensor h = mistake_ == PassMistake::kNoFinalResidual
                         ? p_
                         : mixed(text_.output_attn_res_norm, text_.output_attn_res_proj);
    Tensor logits(ids.size(), text_.lm_head.rows);
    ops_.linear_f32(text_.lm_head, normed(h, text_.norm), logits);
    return logits;
  }

 private:
  Tensor mixed(Vector norm, Vector proj) {
    std::vector<ConstRows> sources(bank_.begin(), bank_.end());
    if (p_.rows() > 0) sources.push_back(p_);
    Tensor h(sources[0].rows, sources[0].width);
    ops_.attention_residual(sources, norm, proj, static_cast<float>(config_.rms_norm_eps), h);
    if (mistake_ == PassMistake::kResidualWrittenOverThePrefix && p_.rows() > 0) p_ = h;
    return h;
  }

  Tensor normed(const Tensor& x, Vector weight) const {
    Tensor y(x.rows(), x.width());
    ops_.rms_norm(x, weight, static_cast<float>(config_.rms_norm_eps), y);
    return y;
  }

  void add_to_prefix(Tensor x) {
    if (p_.rows() == 0) {
      p_ = std::move(x);
    } else {
      ops_.add(x, p_);
    }
  }

  void layer(const StepContext& step, std::size_t i) {
    const LayerWeights& w = text_.layers[i];
    Tensor h = bank_.empty() ? p_ : mixed(w.self_attention_res_norm, w.self_attention_res_proj);
    const std::size_t counted = mistake_ == PassMistake::kBlockStartOffByOne ? i + 2 : i;
    if (counted % config_.attn_res_block_size == 0) {
      bank_.push_back(p_);
      if (mistake_ != PassMistake::kPrefixNotReset) p_ = Tensor();
    }
    const Tensor x = normed(h, w.input_layernorm);
    if (const auto* mla = std::get_if<MlaWeights>(&w.attention)) {
      add_to_prefix(mla_attention(step, i, *mla, x));
    } else {
      add_to_prefix(kda_attention(step, i, std::get<KdaWeights>(w.attention), x));
    }
    h = mixed(w.mlp_res_norm, w.mlp_res_proj);
    const Tensor m = normed(h, w.post_attention_layernorm);
    if (const auto* dense = std::get_if<MlpWeights>(&w.ffn)) {
      add_to_prefix(situ_mlp(step, *dense, m));
    } else {
      add_to_prefix(latent_moe(step, i, std::get<MoeWeights>(w.ffn), m));
    }
  }

  const K3Config& config_;
  const TextWeights& text_;
  const Ops& ops_;
  ExpertSource& experts_;
  PassMistake mistake_;
  std::vector<Tensor> bank_;
  Tensor p_;
};

}  // namespace perigee::test
