#include "proof/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace perigee {
namespace {

constexpr std::size_t kChunk = 256;  // tokens of one step

using Values = std::map<std::string, RecordedValues>;

void append_rows(RecordedValues& to, ConstRows rows) {
  to.shape = {(to.shape.empty() ? 0 : to.shape[0]) + rows.rows, rows.width};
  to.values.insert(to.values.end(), rows.data, rows.data + rows.size());
}

std::string layer_name(std::size_t layer, std::string_view name) {
  return fmt::format("layers.{}.{}", layer, name);
}

class Recorder {
 public:
  Recorder(const K3Config& config, Values& values) : config_(config), values_(values) {}

  ForwardOptions options() {
    ForwardOptions options;
    options.observe = [this](std::string_view name, int layer, ConstRows rows) { take(name, layer, rows); };
    options.observe_routing = [this](int layer, std::span<const RoutedToken> routed) {
      take_routing(static_cast<std::size_t>(layer), routed);
    };
    return options;
  }

  // What can be told only at the end.
  void finish(const SequenceState& state) {
    join_bank();
    for (std::size_t layer = 0; layer < state.layers.size(); ++layer) {
      const auto* kda = std::get_if<KdaState>(&state.layers[layer]);
      if (kda == nullptr) continue;
      RecordedValues& s = values_[layer_name(layer, "state")];
      append_rows(s, kda->s);
      s.shape = {config_.kda_num_heads, config_.kda_head_dim, config_.kda_head_dim};
      append_rows(values_[layer_name(layer, "conv_q")], kda->conv_q);
      append_rows(values_[layer_name(layer, "conv_k")], kda->conv_k);
      append_rows(values_[layer_name(layer, "conv_v")], kda->conv_v);
    }
  }

 private:
  void take(std::string_view name, int layer, ConstRows rows) {
    if (name == "bank") {  // of a block, not of a layer
      bank_.resize(std::max(bank_.size(), static_cast<std::size_t>(layer) + 1));
      append_rows(bank_[static_cast<std::size_t>(layer)], rows);
    } else {
      append_rows(values_[layer < 0 ? std::string(name) : layer_name(static_cast<std::size_t>(layer), name)],
                  rows);
    }
  }

  void take_routing(std::size_t layer, std::span<const RoutedToken> routed) {
    RecordedValues& ids = values_[layer_name(layer, "expert_ids")];
    RecordedValues& weights = values_[layer_name(layer, "expert_weights")];
    ids.integers = true;
    for (const RoutedToken& token : routed) {
      const std::vector<float> experts(token.experts.begin(), token.experts.end());
      append_rows(ids, {experts.data(), 1, experts.size()});
      append_rows(weights, {token.weights.data(), 1, token.weights.size()});
    }
  }

  void join_bank() {
    if (bank_.empty()) return;
    const std::uint64_t tokens = bank_[0].shape[0], width = bank_[0].shape[1];
    RecordedValues& joined = values_["bank"];
    joined.shape = {tokens, bank_.size(), width};
    for (std::uint64_t t = 0; t < tokens; ++t) {
      for (const RecordedValues& block : bank_) {
        const auto row = std::span(block.values).subspan(t * width, width);
        joined.values.insert(joined.values.end(), row.begin(), row.end());
      }
    }
  }

  const K3Config& config_;
  Values& values_;
  std::vector<RecordedValues> bank_;  // by block
};

void check_ids(const K3Config& config, std::span<const std::uint32_t> ids) {
  if (ids.empty()) fail(ErrorCode::kUsage, "the prompt has no tokens");
  if (ids.size() > config.max_position_embeddings) {
    fail(ErrorCode::kUsage, "the prompt has {} tokens and the model's context {}", ids.size(),
         config.max_position_embeddings);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= config.vocab_size) {
      fail(ErrorCode::kUsage, "id {} at place {} of the prompt is beyond the model's vocabulary of {}",
           ids[i], i, config.vocab_size);
    }
  }
}

}  // namespace

Values record_run(const Model& model, std::span<const std::uint32_t> ids, const RecordingOptions& options,
                  const CancelToken& cancel) {
  check_ids(model.config(), ids);
  Values values;
  Recorder recorder(model.config(), values);
  SequenceState state(model.config());
  const ForwardOptions forward = options.inner ? recorder.options() : ForwardOptions{};
  for (std::size_t begin = 0; begin < ids.size(); begin += kChunk) {
    cancel.check();
    const std::size_t count = std::min(kChunk, ids.size() - begin);
    SequenceInput input{.ids = ids.subspan(begin, count),
                        .state = &state,
                        .embeddings = {},
                        .all_logits = options.all_logits};
    for (const auto& [place, embedding] : options.embeddings) {
      if (place >= begin && place < begin + count) input.embeddings.emplace_back(place - begin, embedding);
    }
    const Tensor logits = model.forward({&input, 1}, forward);
    if (options.all_logits || begin + count == ids.size()) append_rows(values["logits"], logits);
  }
  if (options.inner) recorder.finish(state);
  return values;
}

}  // namespace perigee
