#include "model/forward.h"

#include "base/error.h"
#include "model/layers.h"

namespace perigee {
namespace {

class ForwardPass {
 public:
  ForwardPass(const StepContext& step, const TextWeights& text) : step_(step), text_(text) {}

  // Returns the input of lm_head for every row.
  Tensor run(Tensor embedded);

 private:
  void observe(std::string_view name, int layer, ConstRows values) const {
    if (step_.options.observe) step_.options.observe(name, layer, values);
  }

  Tensor attention_residual(Vector norm, Vector proj) const;
  Tensor rms_norm(ConstRows x, Vector weight) const;
  Tensor attention(std::size_t layer, ConstRows x) const;
  Tensor ffn(std::size_t layer, ConstRows x) const;
  void run_layer(std::size_t i);

  float eps() const { return static_cast<float>(step_.config.rms_norm_eps); }

  const StepContext& step_;
  const TextWeights& text_;
  std::vector<Tensor> bank_;  // B, the block residuals
  Tensor prefix_;             // p, the running prefix sum; no rows: none
};

// Over the bank and the prefix, as far as there is one.
Tensor ForwardPass::attention_residual(Vector norm, Vector proj) const {
  std::vector<ConstRows> sources(bank_.begin(), bank_.end());
  if (prefix_.rows() > 0) sources.push_back(prefix_);
  Tensor h(sources.front().rows, sources.front().width);
  step_.ops.attention_residual(sources, norm, proj, eps(), h);
  return h;
}

Tensor ForwardPass::rms_norm(ConstRows x, Vector weight) const {
  Tensor y(x.rows, x.width);
  step_.ops.rms_norm(x, weight, eps(), y);
  return y;
}

Tensor ForwardPass::attention(std::size_t layer, ConstRows x) const {
  const auto& weights = text_.layers[layer].attention;
  if (const auto* mla = std::get_if<MlaWeights>(&weights)) return mla_attention(step_, layer, *mla, x);
  return kda_attention(step_, layer, std::get<KdaWeights>(weights), x);
}

Tensor ForwardPass::ffn(std::size_t layer, ConstRows x) const {
  const auto& weights = text_.layers[layer].ffn;
  if (const auto* dense = std::get_if<MlpWeights>(&weights)) return situ_mlp(step_, *dense, x);
  return latent_moe(step_, layer, std::get<MoeWeights>(weights), x);
}

void ForwardPass::run_layer(std::size_t i) {
  const LayerWeights& w = text_.layers[i];
  const int layer = static_cast<int>(i);

  Tensor h =
      bank_.empty() ? prefix_ : attention_residual(w.self_attention_res_norm, w.self_attention_res_proj);
  if (i % step_.config.attn_res_block_size == 0) {  // a block starts: the prefix becomes a block residual
    bank_.push_back(std::move(prefix_));
    prefix_ = Tensor();
  }
  const Tensor attn_in = rms_norm(h, w.input_layernorm);
  observe("attn_in", layer, attn_in);
  Tensor a = attention(i, attn_in);
  observe("attn_out", layer, a);
  if (prefix_.rows() == 0) {
    prefix_ = std::move(a);
  } else {
    step_.ops.add(a, prefix_);
  }

  h = attention_residual(w.mlp_res_norm, w.mlp_res_proj);
  const Tensor ffn_in = rms_norm(h, w.post_attention_layernorm);
  observe("ffn_in", layer, ffn_in);
  const Tensor m = ffn(i, ffn_in);
  observe("ffn_out", layer, m);
  step_.ops.add(m, prefix_);
  observe("prefix", layer, prefix_);
}

Tensor ForwardPass::run(Tensor embedded) {
  prefix_ = std::move(embedded);
  for (std::size_t i = 0; i < text_.layers.size(); ++i) run_layer(i);
  for (std::size_t block = 0; block < bank_.size(); ++block)
    observe("bank", static_cast<int>(block), bank_[block]);
  const Tensor h = attention_residual(text_.output_attn_res_norm, text_.output_attn_res_proj);
  observe("final_in", -1, h);
  Tensor normed = rms_norm(h, text_.norm);
  observe("final_normed", -1, normed);
  return normed;
}

std::vector<SequenceRows> rows_of_sequences(std::span<const SequenceInput> sequences) {
  std::vector<SequenceRows> rows;
  std::size_t begin = 0;
  for (const SequenceInput& sequence : sequences) {
    rows.push_back({begin, sequence.ids.size(), sequence.state->position, sequence.state});
    begin += sequence.ids.size();
  }
  return rows;
}

Tensor embed(const Ops& ops, const Matrix& table, std::span<const SequenceInput> sequences) {
  std::vector<std::uint32_t> ids;
  for (const SequenceInput& sequence : sequences)
    ids.insert(ids.end(), sequence.ids.begin(), sequence.ids.end());
  for (const std::uint32_t id : ids) {
    if (id >= table.rows) {
      fail(ErrorCode::kUsage, "token id {} is beyond the model's vocabulary of {}; it belongs to another one",
           id, table.rows);
    }
  }
  Tensor x(ids.size(), table.columns);
  ops.embed(table, ids, x);
  std::size_t begin = 0;
  for (const SequenceInput& sequence : sequences) {
    for (const auto& [index, values] : sequence.embeddings) std::copy_n(values, x.width(), x[begin + index]);
    begin += sequence.ids.size();
  }
  return x;
}

// The rows whose logits are wanted.
Tensor rows_for_head(const Tensor& normed, std::span<const SequenceInput> sequences) {
  std::vector<std::size_t> wanted;
  std::size_t begin = 0;
  for (const SequenceInput& sequence : sequences) {
    const std::size_t end = begin + sequence.ids.size();
    for (std::size_t row = sequence.all_logits ? begin : end - 1; row < end; ++row) wanted.push_back(row);
    begin = end;
  }
  Tensor rows(wanted.size(), normed.width());
  for (std::size_t i = 0; i < wanted.size(); ++i) std::copy_n(normed[wanted[i]], normed.width(), rows[i]);
  return rows;
}

}  // namespace

Model::Model(const LoadedModel& weights, const Ops& ops) : weights_(weights), ops_(ops) {}

const K3Config& Model::config() const {
  return weights_.config();
}

const Ops& Model::ops() const {
  return ops_;
}

Tensor Model::forward(std::span<const SequenceInput> sequences, const ForwardOptions& options) const {
  for (const SequenceInput& sequence : sequences) {
    if (sequence.ids.empty())
      fail(ErrorCode::kInternal, "a sequence without tokens was given to a forward step");
  }
  const TextWeights& text = weights_.text();
  const std::vector<SequenceRows> rows = rows_of_sequences(sequences);
  const StepContext step{config(), ops_, weights_.experts(), rows, options};
  const Tensor normed = ForwardPass(step, text).run(embed(ops_, text.embed_tokens, sequences));
  for (const SequenceRows& sequence : rows) sequence.state->position += sequence.count;

  const Tensor last = rows_for_head(normed, sequences);
  Tensor logits(last.rows(), text.lm_head.rows);
  ops_.linear_f32(text.lm_head, last, logits);
  return logits;
}

}  // namespace perigee
