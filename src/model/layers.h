// The parts of a layer, each a function that reads like docs/model.md. All work on the rows of every sequence
// of a step at once, except where a sequence's own state comes in.
#pragma once

#include <exception>
#include <functional>
#include <span>

#include "checkpoint/config.h"
#include "compute/ops.h"
#include "model/forward.h"
#include "model/state.h"
#include "model/weights.h"

namespace perigee {

// Rows [begin, begin + count) of a step belong to the sequence with this state.
struct SequenceRows {
  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t position = 0;  // tokens before these
  SequenceState* state = nullptr;
};

struct StepContext {
  const K3Config& config;
  const Ops& ops;
  ExpertSource& experts;
  std::span<const SequenceRows> sequences;
  const ForwardOptions& options;
  std::span<const LayerWeights> layers = {};    // of the whole model, to look ahead; empty: do not
  std::span<std::exception_ptr> failures = {};  // of each sequence; empty: a failure ends the step

  void observe(std::string_view name, int layer, ConstRows values) const {
    if (options.observe) options.observe(name, layer, values);
  }
  // These rows cannot be computed. What they hold from here on is of no use, but finite.
  void fail_rows(std::span<const std::uint32_t> broken, std::exception_ptr cause) const;
};

// What runs through the layers, for the rows of a step.
struct ResidualStream {
  std::vector<Tensor> bank;  // B, the block residuals
  Tensor prefix;             // p, the running prefix sum; no rows: none
};

// Over the bank and the prefix, as far as there is one.
Tensor attention_residual(const StepContext& step, const ResidualStream& stream, Vector norm, Vector proj);
Tensor rms_norm(const StepContext& step, ConstRows x, Vector weight);

// One layer: attention and feed-forward, each with its residual. Moves the stream and the states on.
void decoder_layer(const StepContext& step, std::size_t layer, const LayerWeights& w, ResidualStream& stream);

// x: the normed input [rows, hidden]. The layer's entry in every sequence's state is moved on.
Tensor kda_attention(const StepContext& step, std::size_t layer, const KdaWeights& w, ConstRows x);
Tensor mla_attention(const StepContext& step, std::size_t layer, const MlaWeights& w, ConstRows x);

Tensor situ_mlp(const StepContext& step, const MlpWeights& w, ConstRows x);
// `meanwhile` is called when the experts have been asked for and before they are waited for; may be empty.
Tensor latent_moe(const StepContext& step, std::size_t layer, const MoeWeights& w, ConstRows x,
                  const std::function<void()>& meanwhile = {});
// The layer's router, without telling anybody.
std::vector<RoutedToken> choose_experts(const StepContext& step, const MoeWeights& w, ConstRows x);
// Tells the source of experts which ones the layer will probably need, if it wants to know.
void foresee_experts(const StepContext& step, std::size_t layer, const ResidualStream& stream);

inline Rows rows_of(Tensor& x, std::size_t begin, std::size_t count) {
  return {x[begin], count, x.width()};
}
inline ConstRows rows_of(ConstRows x, std::size_t begin, std::size_t count) {
  return {x[begin], count, x.width};
}

inline Tensor linear(const Ops& ops, const Matrix& w, ConstRows x) {
  Tensor y(x.rows, w.rows);
  ops.linear(w, x, y);
  return y;
}

}  // namespace perigee
