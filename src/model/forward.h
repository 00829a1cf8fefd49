// K3's forward pass (docs/model.md), written once over Ops: it reads like the specification and knows neither
// instruction sets nor where experts live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compute/ops.h"
#include "model/state.h"
#include "model/weights.h"

namespace perigee {

// The next tokens of one sequence.
struct SequenceInput {
  std::span<const std::uint32_t> ids;
  SequenceState* state = nullptr;  // moved on by ids.size() tokens
  // Embeddings that replace those of the ids at these indices of `ids` (images); each [hidden].
  std::vector<std::pair<std::size_t, const float*>> embeddings;
  bool all_logits = false;  // of every token; otherwise of the last one
};

// Sees inner values as they are made: name as in docs/model.md ("attn_in", "attn_out", "ffn_in", "ffn_out",
// "prefix", "expert_ids", …), 0-based layer (-1 outside layers), rows in the order of the step's tokens.
using Observer = std::function<void(std::string_view name, int layer, ConstRows values)>;
using RoutingObserver = std::function<void(int layer, std::span<const RoutedToken> routed)>;
// What the layer before foresees for a layer, likeliest first; of steps over a few tokens only.
using ForesightObserver = std::function<void(int layer, std::span<const std::uint32_t> experts)>;

struct ForwardOptions {
  Observer observe;
  RoutingObserver observe_routing;
  ForesightObserver observe_foresight = {};  // if given, it is made even if nobody reads ahead
  // Hears of a sequence that cannot be computed while others can, because an expert that it needs cannot be
  // read. Its logits are NaN and its state is of no more use. Empty: the step throws the cause instead.
  std::function<void(std::size_t sequence, std::exception_ptr cause)> on_failure = {};
};

class Model {
 public:
  // Keeps references.
  Model(const LoadedModel& weights, const Ops& ops);
  // Weights that come from no checkpoint; of the sizes in the config, which nobody checks again.
  Model(const K3Config& config, const TextWeights& text, ExpertSource& experts, const Ops& ops);

  // One step of any number of sequences, prompts and single tokens mixed. Logits [rows, vocab_size] float32:
  // those of the first sequence, then of the second, … A sequence's logits do not depend on the others.
  Tensor forward(std::span<const SequenceInput> sequences, const ForwardOptions& options = {}) const;

  const K3Config& config() const;
  const Ops& ops() const;

 private:
  const K3Config& config_;
  const TextWeights& text_;
  ExpertSource& experts_;
  const Ops& ops_;
};

}  // namespace perigee
