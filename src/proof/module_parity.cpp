#include "proof/module_parity.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/error.h"
#include "model/layers.h"

namespace perigee {
namespace {

constexpr DistanceBound kModuleBound{0.01, 0};
// Closer biased scores than this may be ranked either way.
constexpr DistanceBound kScoreBound{1e-3, 0};

class ModuleCheck {
 public:
  ModuleCheck(const LoadedModel& weights, const Ops& ops, const GoldenValues& golden, std::string prefix,
              Distances& distances, std::set<std::string>& used)
      : weights_(weights),
        ops_(ops),
        golden_(golden),
        prefix_(std::move(prefix)),
        distances_(distances),
        used_(used) {}

  void attention(std::size_t layer);
  void ffn(std::size_t layer);
  void head();

 private:
  // Rows of one sequence that begins here; kCorrupt unless the recorded rows are `width` wide.
  std::optional<Tensor> input(const std::string& name, std::size_t width);
  GoldenTensor expected(const std::string& name) {
    used_.insert(prefix_ + name);
    return golden_.tensor(prefix_ + name);
  }
  void compare(const std::string& kind, const std::string& name, ConstRows found);
  void compare_rows(const std::string& kind, const std::string& name, ConstRows found,
                    const std::vector<bool>& skip);
  std::vector<bool> compare_experts(std::size_t layer, const MoeWeights& w, ConstRows x,
                                    std::span<const RoutedToken> routed);
  template <typename Run>
  Tensor feed(std::size_t rows, SequenceState& state, const ForwardOptions& options, const Run& run) {
    const SequenceRows sequence{0, rows, 0, &state};
    return run(StepContext{weights_.config(), ops_, weights_.experts(), {&sequence, 1}, options});
  }
  void check_size(const std::string& name, std::size_t found, std::size_t recorded) const {
    if (found == recorded) return;
    fail(ErrorCode::kCorrupt, "golden.safetensors: {}{} has {} values, the model makes {}", prefix_, name,
         recorded, found);
  }

  const LoadedModel& weights_;
  const Ops& ops_;
  const GoldenValues& golden_;
  const std::string prefix_;
  Distances& distances_;
  std::set<std::string>& used_;
};

std::optional<Tensor> ModuleCheck::input(const std::string& name, std::size_t width) {
  if (!golden_.has(prefix_ + name)) return std::nullopt;
  const GoldenTensor recorded = expected(name);
  if (recorded.row_size() != width || recorded.rows() == 0) {
    fail(ErrorCode::kCorrupt, "golden.safetensors: {}{} must have rows of {} values", prefix_, name, width);
  }
  Tensor rows(recorded.rows(), width);
  std::copy(recorded.values.begin(), recorded.values.end(), rows.values().begin());
  return rows;
}

void ModuleCheck::compare(const std::string& kind, const std::string& name, ConstRows found) {
  if (!golden_.has(prefix_ + name)) return;
  const GoldenTensor recorded = expected(name);
  check_size(name, found.size(), recorded.values.size());
  distances_.add("bf16 " + kind, kModuleBound, relative_l2(found.data, recorded.values.data(), found.size()),
                 prefix_ + name);
}

void ModuleCheck::compare_rows(const std::string& kind, const std::string& name, ConstRows found,
                               const std::vector<bool>& skip) {
  if (!golden_.has(prefix_ + name)) return;
  const GoldenTensor recorded = expected(name);
  check_size(name, found.size(), recorded.values.size());
  for (std::size_t t = 0; t < found.rows; ++t) {
    if (t < skip.size() && skip[t]) continue;
    distances_.add("bf16 " + kind, kModuleBound, relative_l2(found[t], recorded.row(t), found.width),
                   fmt::format("{}{} row {}", prefix_, name, t));
  }
}

void ModuleCheck::attention(std::size_t layer) {
  const std::string name = fmt::format("layers.{}.", layer);
  const std::optional<Tensor> x = input(name + "attn_in", weights_.config().hidden_size);
  if (!x) return;
  SequenceState state(weights_.config());
  const auto& w = weights_.text().layers[layer].attention;
  const auto* kda = std::get_if<KdaWeights>(&w);
  const Tensor y = feed(x->rows(), state, {}, [&](const StepContext& step) {
    return kda != nullptr ? kda_attention(step, layer, *kda, *x)
                          : mla_attention(step, layer, std::get<MlaWeights>(w), *x);
  });
  compare(kda != nullptr ? "KDA output" : "MLA output", name + "attn_out", y);
  if (kda == nullptr) return;
  const KdaState& after = std::get<KdaState>(state.layers[layer]);
  compare("KDA state", name + "state", after.s);
  compare("convolution inputs", name + "conv_q", after.conv_q);
  compare("convolution inputs", name + "conv_k", after.conv_k);
  compare("convolution inputs", name + "conv_v", after.conv_v);
}

// How far the biased scores of the experts that only one side chose lie apart, at most.
double score_gap(const float* logits, Vector bias, std::span<const std::uint32_t> ours,
                 std::span<const std::uint32_t> theirs) {
  double least = INFINITY, most = -INFINITY;
  const auto add_those_not_in = [&](auto from, auto other) {
    for (const std::uint32_t e : from) {
      if (std::find(other.begin(), other.end(), e) != other.end()) continue;
      const double score = 1 / (1 + std::exp(-static_cast<double>(logits[e]))) + static_cast<double>(bias[e]);
      least = std::min(least, score);
      most = std::max(most, score);
    }
  };
  add_those_not_in(ours, theirs);
  add_those_not_in(theirs, ours);
  return most < least ? 0 : most - least;
}

// The tokens for which other experts were chosen: their outputs cannot be compared.
std::vector<bool> ModuleCheck::compare_experts(std::size_t layer, const MoeWeights& w, ConstRows x,
                                               std::span<const RoutedToken> routed) {
  const std::string name = fmt::format("layers.{}.", layer);
  const std::size_t top_k = weights_.config().num_experts_per_token;
  const GoldenTensor ids = expected(name + "expert_ids");
  check_size(name + "expert_ids", routed.size() * top_k, ids.values.size());
  Tensor logits(x.rows, w.gate.rows);
  ops_.linear_f32(w.gate, x, logits);
  std::vector<bool> others(x.rows);
  for (std::size_t t = 0; t < x.rows; ++t) {
    std::vector<std::uint32_t> theirs;
    for (std::size_t i = 0; i < top_k; ++i) {
      const float id = ids.row(t)[i];
      if (!(id >= 0 && id < static_cast<float>(w.gate.rows)))
        fail(ErrorCode::kCorrupt, "golden.safetensors: {}{}expert_ids has an expert {}", prefix_, name, id);
      theirs.push_back(static_cast<std::uint32_t>(id));
    }
    others[t] = routed[t].experts != theirs;
    distances_.add("bf16 scores of other experts", kScoreBound,
                   score_gap(logits[t], w.e_score_correction_bias, routed[t].experts, theirs),
                   fmt::format("{}{}expert_ids row {}", prefix_, name, t));
  }
  return others;
}

void ModuleCheck::ffn(std::size_t layer) {
  const std::string name = fmt::format("layers.{}.", layer);
  const std::optional<Tensor> x = input(name + "ffn_in", weights_.config().hidden_size);
  if (!x) return;
  SequenceState state(weights_.config());
  std::vector<RoutedToken> routed;
  ForwardOptions options;
  options.observe_routing = [&](int, std::span<const RoutedToken> r) { routed.assign(r.begin(), r.end()); };
  const auto& w = weights_.text().layers[layer].ffn;
  const auto* moe = std::get_if<MoeWeights>(&w);
  const Tensor y = feed(x->rows(), state, options, [&](const StepContext& step) {
    return moe != nullptr ? latent_moe(step, layer, *moe, *x) : situ_mlp(step, std::get<MlpWeights>(w), *x);
  });
  if (moe == nullptr) return compare("dense FFN output", name + "ffn_out", y);
  std::vector<bool> others;
  if (golden_.has(prefix_ + name + "expert_ids")) others = compare_experts(layer, *moe, *x, routed);
  Tensor chosen_weights(routed.size(), weights_.config().num_experts_per_token);
  for (std::size_t t = 0; t < routed.size(); ++t)
    std::copy(routed[t].weights.begin(), routed[t].weights.end(), chosen_weights[t]);
  compare_rows("expert weights", name + "expert_weights", chosen_weights, others);
  compare_rows("MoE output", name + "ffn_out", y, others);
}

// From the input of the final norm to the logits.
void ModuleCheck::head() {
  const TextWeights& text = weights_.text();
  const std::size_t hidden = weights_.config().hidden_size;
  if (const std::optional<Tensor> x = input("final_in", hidden)) {
    Tensor normed(x->rows(), hidden);
    ops_.rms_norm(*x, text.norm, static_cast<float>(weights_.config().rms_norm_eps), normed);
    compare("final norm", "final_normed", normed);
  }
  if (const std::optional<Tensor> x = input("final_normed", hidden)) {
    Tensor logits(x->rows(), text.lm_head.rows);
    ops_.linear_f32(text.lm_head, *x, logits);
    compare("head", "logits", logits);
  }
}

}  // namespace

void check_modules(const LoadedModel& weights, const Ops& ops, const GoldenValues& golden,
                   const std::string& prefix, Distances& distances, std::set<std::string>& used) {
  ModuleCheck check(weights, ops, golden, prefix, distances, used);
  for (std::size_t layer = 0; layer < weights.config().num_hidden_layers; ++layer) {
    check.attention(layer);
    check.ffn(layer);
  }
  check.head();
}

}  // namespace perigee
