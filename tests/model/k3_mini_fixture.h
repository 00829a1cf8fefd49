// What tests of the forward pass share: k3-mini loaded once, and each golden prompt computed once in float32
// with all its inner values. For tests only.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "model/forward.h"
#include "model/k3_mini.h"

namespace perigee::test {

inline Tensor copy_of(ConstRows rows) {
  Tensor copy(rows.rows, rows.width);
  std::copy_n(rows.data, rows.size(), copy.values().data());
  return copy;
}

// A whole prompt from an empty state.
struct PromptRun {
  explicit PromptRun(const K3Config& config) : state(config) {}
  Tensor logits;                                    // of every token
  SequenceState state;                              // after the prompt
  std::map<std::string, Tensor> values;             // "layers.3.attn_in", "final_in", "layers.1.bank", …
  std::map<int, std::vector<RoutedToken>> routing;  // by layer
};

class K3Mini : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(k3_mini_folder())) GTEST_SKIP() << "the golden model k3-mini is not here";
  }

  static const LoadedModel& weights() {
    static const LoadedModel loaded = LoadedModel::load(k3_mini_folder(), {});
    return loaded;
  }
  static const K3MiniGolden& golden() {
    static const K3MiniGolden values;
    return values;
  }
  // The fastest backend: it gives the reference's bits (tests/compute, tests/engine).
  static const Ops& ops(Precision precision) {
    static const std::unique_ptr<Ops> f32 = make_ops({Precision::kF32, 0, ""});
    static const std::unique_ptr<Ops> bf16 = make_ops({Precision::kBf16, 0, ""});
    return precision == Precision::kF32 ? *f32 : *bf16;
  }

  static PromptRun run(const LoadedModel& model, Precision precision, const std::vector<std::uint32_t>& ids) {
    PromptRun result(model.config());
    ForwardOptions options;
    options.observe = [&](std::string_view name, int layer, ConstRows values) {
      const std::string key = layer < 0 ? std::string(name) : fmt::format("layers.{}.{}", layer, name);
      result.values[key] = copy_of(values);
    };
    options.observe_routing = [&](int layer, std::span<const RoutedToken> routed) {
      result.routing[layer].assign(routed.begin(), routed.end());
    };
    const SequenceInput input{.ids = ids, .state = &result.state, .embeddings = {}, .all_logits = true};
    result.logits = Model(model, ops(precision)).forward({&input, 1}, options);
    return result;
  }

  // Of the golden prompt of this name.
  static const PromptRun& f32_run(const std::string& prompt) {
    static std::map<std::string, PromptRun> runs;
    auto found = runs.find(prompt);
    if (found == runs.end())
      found = runs.emplace(prompt, run(weights(), Precision::kF32, golden().prompt(prompt))).first;
    return found->second;
  }
};

}  // namespace perigee::test
