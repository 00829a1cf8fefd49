#include "model/forward.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "model/layers.h"

namespace perigee {
namespace {

// Returns the input of lm_head for every row.
Tensor run_layers(const StepContext& step, const TextWeights& text, Tensor embedded) {
  ResidualStream stream;
  stream.prefix = std::move(embedded);
  for (std::size_t i = 0; i < text.layers.size(); ++i) decoder_layer(step, i, text.layers[i], stream);
  for (std::size_t block = 0; block < stream.bank.size(); ++block)
    step.observe("bank", static_cast<int>(block), stream.bank[block]);
  const Tensor h = attention_residual(step, stream, text.output_attn_res_norm, text.output_attn_res_proj);
  step.observe("final_in", -1, h);
  Tensor normed = rms_norm(step, h, text.norm);
  step.observe("final_normed", -1, normed);
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

void report_failures(std::span<const std::exception_ptr> failures, std::span<const SequenceInput> sequences,
                     const ForwardOptions& options, Tensor& logits) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const std::size_t count = sequences[i].all_logits ? sequences[i].ids.size() : 1;
    if (failures[i]) {
      const Rows broken = rows_of(logits, row, count);
      std::fill_n(broken.data, broken.size(), std::numeric_limits<float>::quiet_NaN());
      options.on_failure(i, failures[i]);
    }
    row += count;
  }
}

}  // namespace

Model::Model(const LoadedModel& weights, const Ops& ops)
    : Model(weights.config(), weights.text(), weights.experts(), ops) {}

Model::Model(const K3Config& config, const TextWeights& text, ExpertSource& experts, const Ops& ops)
    : config_(config), text_(text), experts_(experts), ops_(ops) {}

const K3Config& Model::config() const {
  return config_;
}

const Ops& Model::ops() const {
  return ops_;
}

Tensor Model::forward(std::span<const SequenceInput> sequences, const ForwardOptions& options) const {
  for (const SequenceInput& sequence : sequences) {
    if (sequence.ids.empty())
      fail(ErrorCode::kInternal, "a sequence without tokens was given to a forward step");
  }
  const std::vector<SequenceRows> rows = rows_of_sequences(sequences);
  std::vector<std::exception_ptr> failures(options.on_failure ? sequences.size() : 0);
  const StepContext step{config_, ops_, experts_, rows, options, text_.layers, failures};
  const Tensor normed = run_layers(step, text_, embed(ops_, text_.embed_tokens, sequences));
  for (const SequenceRows& sequence : rows) sequence.state->position += sequence.count;

  const Tensor last = rows_for_head(normed, sequences);
  Tensor logits(last.rows(), text_.lm_head.rows);
  ops_.linear_f32(text_.lm_head, last, logits);
  report_failures(failures, sequences, options, logits);
  return logits;
}

}  // namespace perigee
