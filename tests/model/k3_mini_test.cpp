#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "model/forward.h"
#include "model/k3_mini.h"

namespace perigee {
namespace {

// Bounds of the golden's README: the released code differs from itself by 1.3e-5 when it is run token by
// token.
constexpr double kRowBound = 3e-4;
constexpr double kMedianBound = 3e-5;
constexpr double kInnerBound = 2e-5;

class K3Mini : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(test::k3_mini_folder()))
      GTEST_SKIP() << "the golden model k3-mini is not here";
  }

  static const LoadedModel& weights() {
    static const LoadedModel loaded = LoadedModel::load(test::k3_mini_folder(), {});
    return loaded;
  }
  static const test::K3MiniGolden& golden() {
    static const test::K3MiniGolden values;
    return values;
  }

  static Tensor all_logits(const Ops& ops, const std::vector<std::uint32_t>& ids,
                           const ForwardOptions& options = {}) {
    SequenceState state(weights().config());
    const SequenceInput input{.ids = ids, .state = &state, .embeddings = {}, .all_logits = true};
    return Model(weights(), ops).forward({&input, 1}, options);
  }
};

TEST_F(K3Mini, GivesTheReleasedCodesLogits) {
  const auto ops = make_ops({.precision = Precision::kF32, .threads = 0, .backend = "reference"});
  std::vector<double> errors;
  for (const std::string prompt : {"single", "short", "medium", "long"}) {
    const Tensor logits = all_logits(*ops, golden().prompt(prompt));
    const Tensor expected = golden().tensor(fmt::format("f32.{}.logits", prompt));
    const std::vector<std::size_t> rows = golden().logit_rows(prompt);
    ASSERT_EQ(expected.rows(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      errors.push_back(test::relative_l2(logits[rows[i]], expected[i], expected.width()));
      EXPECT_LE(errors.back(), kRowBound) << prompt << " row " << rows[i];
    }
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], kMedianBound);
  RecordProperty("median", fmt::format("{:.2e}", errors[errors.size() / 2]));
}

TEST_F(K3Mini, GivesTheReleasedCodesInnerValues) {
  const auto ops = make_ops({.precision = Precision::kF32, .threads = 0, .backend = "reference"});
  std::map<std::string, Tensor> found;
  ForwardOptions options;
  options.observe = [&](std::string_view name, int layer, ConstRows values) {
    Tensor copy(values.rows, values.width);
    std::copy_n(values.data, values.size(), copy[0]);
    found[layer < 0 ? std::string(name) : fmt::format("layers.{}.{}", layer, name)] = std::move(copy);
  };
  all_logits(*ops, golden().prompt("short"), options);
  std::size_t compared = 0;
  for (const auto& [name, values] : found) {
    const std::string key = "f32.short." + name;
    if (!golden().has(key)) continue;
    const Tensor expected = golden().tensor(key);
    ASSERT_EQ(expected.values().size(), values.values().size()) << key;
    EXPECT_LE(test::relative_l2(values[0], expected[0], values.values().size()), kInnerBound) << key;
    ++compared;
  }
  EXPECT_GE(compared, 45u);
}

}  // namespace
}  // namespace perigee
