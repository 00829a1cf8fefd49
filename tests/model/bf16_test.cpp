// bf16 as the release computes: every module fed its recorded input, and the whole model where rounding
// cannot change the chosen experts.
#include <algorithm>
#include <fstream>
#include <set>

#include "model/edit_checkpoint.h"
#include "model/k3_mini_fixture.h"
#include "model/layers.h"
#include "numerics/elementary.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

using test::relative_l2;

constexpr double kModuleBound = 0.01;
// Closer scores than this may be ranked either way.
constexpr double kScoreBound = 1e-3;

class K3MiniBf16 : public test::K3Mini {
 protected:
  static Tensor recorded(const std::string& name) { return golden().tensor("bf16.short." + name); }
  static const Ops& bf16() { return ops(Precision::kBf16); }

  // Runs `module(step)` on rows of one sequence that begins here.
  template <typename Module>
  static Tensor feed(std::size_t rows, SequenceState& state, const ForwardOptions& options,
                     const Module& module) {
    const SequenceRows sequence{0, rows, 0, &state};
    const StepContext step{weights().config(), bf16(), weights().experts(), {&sequence, 1}, options};
    return module(step);
  }

  static Tensor attention(std::size_t layer, ConstRows x, SequenceState& state) {
    const auto& w = weights().text().layers[layer].attention;
    return feed(x.rows, state, {}, [&](const StepContext& step) {
      if (const auto* kda = std::get_if<KdaWeights>(&w)) return kda_attention(step, layer, *kda, x);
      return mla_attention(step, layer, std::get<MlaWeights>(w), x);
    });
  }
};

TEST_F(K3MiniBf16, EveryAttentionGivesTheReleasedCodesOutputAndStates) {
  double largest = 0;
  for (std::size_t layer = 0; layer < weights().config().num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    SequenceState state(weights().config());
    const auto expect_near = [&](const std::string& name, ConstRows found) {
      const Tensor expected = recorded(prefix + name);
      ASSERT_EQ(found.size(), expected.values().size());
      const double error = relative_l2(found.data, expected[0], found.size());
      EXPECT_LE(error, kModuleBound) << prefix << name;
      largest = std::max(largest, error);
    };
    expect_near("attn_out", attention(layer, recorded(prefix + "attn_in"), state));
    const auto* kda = std::get_if<KdaState>(&state.layers[layer]);
    if (kda == nullptr) continue;
    expect_near("state", kda->s);
    expect_near("conv_q", kda->conv_q);
    expect_near("conv_k", kda->conv_k);
    expect_near("conv_v", kda->conv_v);
  }
  RecordProperty("largest", fmt::format("{:.2e}", largest));
}

// How far the biased scores of experts that only one side chose lie apart, at most.
double score_gap(const float* logits, Vector bias, const std::vector<std::uint32_t>& ours,
                 const std::vector<std::uint32_t>& theirs) {
  std::vector<double> scores;
  const auto add_those_not_in = [&](const auto& from, const auto& other) {
    for (const std::uint32_t e : from) {
      if (std::find(other.begin(), other.end(), e) == other.end())
        scores.push_back(1 / (1 + std::exp(-static_cast<double>(logits[e]))) + static_cast<double>(bias[e]));
    }
  };
  add_those_not_in(ours, theirs);
  add_those_not_in(theirs, ours);
  if (scores.empty()) return 0;
  return *std::max_element(scores.begin(), scores.end()) - *std::min_element(scores.begin(), scores.end());
}

TEST_F(K3MiniBf16, EveryMoeChoosesTheReleasedCodesExpertsAndGivesItsOutput) {
  double largest = 0;
  std::size_t differing = 0;
  for (std::size_t layer = 1; layer < weights().config().num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    const auto& w = std::get<MoeWeights>(weights().text().layers[layer].ffn);
    const Tensor x = recorded(prefix + "ffn_in"), expected = recorded(prefix + "ffn_out");
    const Tensor ids = recorded(prefix + "expert_ids"), expert_weights = recorded(prefix + "expert_weights");
    std::vector<RoutedToken> routed;
    ForwardOptions options;
    options.observe_routing = [&](int, std::span<const RoutedToken> r) { routed.assign(r.begin(), r.end()); };
    SequenceState state(weights().config());
    const Tensor found = feed(x.rows(), state, options,
                              [&](const StepContext& step) { return latent_moe(step, layer, w, x); });
    Tensor logits(x.rows(), w.gate.rows);
    bf16().linear_f32(w.gate, x, logits);
    for (std::size_t t = 0; t < x.rows(); ++t) {
      const std::vector<std::uint32_t> theirs(ids[t], ids[t] + ids.width());
      if (routed[t].experts != theirs) {
        ++differing;
        EXPECT_LT(score_gap(logits[t], w.e_score_correction_bias, routed[t].experts, theirs), kScoreBound)
            << prefix << "token " << t;
        continue;
      }
      EXPECT_LE(relative_l2(routed[t].weights.data(), expert_weights[t], ids.width()), 1e-4) << prefix << t;
      const double error = relative_l2(found[t], expected[t], x.width());
      EXPECT_LE(error, kModuleBound) << prefix << "token " << t;
      largest = std::max(largest, error);
    }
  }
  EXPECT_LE(differing, 2u) << "of 96 choices";
  RecordProperty("largest", fmt::format("{:.2e}", largest));
  RecordProperty("other experts", static_cast<int>(differing));
}

TEST_F(K3MiniBf16, TheDenseLayerGivesTheReleasedCodesOutput) {
  const auto& w = std::get<MlpWeights>(weights().text().layers[0].ffn);
  const Tensor x = recorded("layers.0.ffn_in"), expected = recorded("layers.0.ffn_out");
  SequenceState state(weights().config());
  const Tensor found =
      feed(x.rows(), state, {}, [&](const StepContext& step) { return situ_mlp(step, w, x); });
  EXPECT_LE(relative_l2(found[0], expected[0], expected.values().size()), kModuleBound);
}

TEST_F(K3MiniBf16, TheEndOfTheModelGivesTheReleasedCodesValues) {
  const TextWeights& text = weights().text();
  const auto eps = static_cast<float>(weights().config().rms_norm_eps);
  const Tensor bank = recorded("bank"), prefix = recorded("layers.8.prefix");
  const std::size_t tokens = prefix.rows(), blocks = bank.rows() / tokens;
  std::vector<Tensor> sources(blocks, Tensor(tokens, prefix.width()));
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t b = 0; b < blocks; ++b) std::copy_n(bank[t * blocks + b], bank.width(), sources[b][t]);
  }
  sources.push_back(prefix);
  const std::vector<ConstRows> views(sources.begin(), sources.end());
  Tensor mixed(tokens, prefix.width()), normed(tokens, prefix.width()), logits(tokens, text.lm_head.rows);
  bf16().attention_residual(views, text.output_attn_res_norm, text.output_attn_res_proj, eps, mixed);
  bf16().rms_norm(recorded("final_in"), text.norm, eps, normed);
  bf16().linear_f32(text.lm_head, recorded("final_normed"), logits);
  const auto expect_near = [&](const std::string& name, const Tensor& found) {
    EXPECT_LE(relative_l2(found[0], recorded(name)[0], found.values().size()), kModuleBound) << name;
  };
  expect_near("final_in", mixed);
  expect_near("final_normed", normed);
  expect_near("logits", logits);
}

// With selection biases so strong that rounding never changes the chosen experts.
class K3MiniSteady : public test::K3Mini {
 protected:
  static const LoadedModel& steady_weights() {
    static const LoadedModel loaded = [] {
      const test::TempDir folder;
      test::MiniTensors tensors = test::read_checkpoint(test::k3_mini_folder());
      for (const std::string& key : golden().keys("steady.")) {
        const Tensor bias = golden().tensor(key);
        const auto bytes = std::as_bytes(bias.values());
        tensors.at(key.substr(std::string("steady.").size())).data.assign(bytes.begin(), bytes.end());
      }
      test::write_checkpoint(folder.path(), test::k3_mini_folder() / "config.json", tensors);
      return LoadedModel::load(folder.path(), {});
    }();
    return loaded;
  }
};

TEST_F(K3MiniSteady, GivesTheReleasedCodesFloat32Logits) {
  const Tensor expected = golden().tensor("f32.steady.short.logits");
  const Tensor found = run(steady_weights(), Precision::kF32, golden().prompt("short")).logits;
  for (std::size_t row = 0; row < expected.rows(); ++row)
    EXPECT_LE(relative_l2(found[row], expected[row], expected.width()), 3e-4) << "row " << row;
}

// Bound of a row: how far the release's own bf16 is from its float32.
TEST_F(K3MiniSteady, GivesTheReleasedCodesBf16LogitsAsNearAsRoundingAllows) {
  for (const std::string prompt : {"short", "medium"}) {
    const Tensor expected = golden().tensor(fmt::format("bf16.steady.{}.logits", prompt));
    const Tensor found = run(steady_weights(), Precision::kBf16, golden().prompt(prompt)).logits;
    const std::vector<std::size_t> rows = golden().logit_rows(prompt);
    const std::vector<double> rounding = golden().json()["steady_bf16_rel_rmse"][prompt];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double error = relative_l2(found[rows[i]], expected[i], expected.width());
      EXPECT_LE(error, rounding[i]) << prompt << " row " << rows[i];
    }
  }
}

}  // namespace
}  // namespace perigee
