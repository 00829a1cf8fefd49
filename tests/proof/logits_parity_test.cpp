#include "proof/logits_parity.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "proof/distances.h"
#include "proof/golden_values.h"
#include "proof/patched_checkpoint.h"
#include "proof/recorded_run.h"
#include "support/expect_error.h"
#include "support/mini_model.h"
#include "support/mini_safetensors.h"
#include "support/paths.h"

namespace perigee {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<Ops> fastest(Precision precision) {
  return make_ops({precision, 1, ""});
}

const std::vector<TokenId> kIds = {3, 141, 59, 26, 53, 58};

// What our own forward pass gives, recorded as if somebody else had: the comparison must find that equal, and
// everything that a test then changes.
class LogitsParityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& entry : std::filesystem::directory_iterator(test::mini_model()))
      std::filesystem::copy(entry.path(), folder_ / entry.path().filename().string());
    const LoadedModel weights = LoadedModel::load(test::mini_model(), {});
    RecordingOptions options;
    options.inner = true;
    for (const auto& [precision, prefix] :
         {std::pair(Precision::kF32, "f32.short."), std::pair(Precision::kBf16, "bf16.short.")}) {
      const std::unique_ptr<Ops> ops = fastest(precision);
      for (auto& [name, value] : record_run(Model(weights, *ops), kIds, options, {}))
        values_[prefix + name] = std::move(value);
    }
    json_ = {{"prompts", {{"short", kIds}}}, {"logit_rows", {{"short", {0, 1, 2, 3, 4, 5}}}}};
  }

  LogitsParity check() {
    write();
    return check_logits_parity(folder_.path(), fastest, {});
  }

  // The kinds of value that are too far away.
  std::vector<std::string> too_far() {
    std::vector<std::string> kinds;
    for (const LogitsParityRow& row : check().rows) {
      if (!row.ok()) kinds.push_back(row.what);
    }
    return kinds;
  }

  void write() {
    std::vector<TensorInfo> tensors;
    for (const auto& [name, value] : values_) {
      TensorInfo tensor;
      tensor.name = name;
      tensor.dtype = DType::kF32;
      tensor.shape = value.shape;
      tensors.push_back(tensor);
    }
    assign_offsets(tensors);
    std::ofstream file(folder_ / "golden.safetensors", std::ios::binary);
    file << serialize_safetensors_header(tensors, {});
    for (const auto& [name, value] : values_)
      file.write(reinterpret_cast<const char*>(value.values.data()),
                 static_cast<std::streamsize>(value.values.size() * sizeof(float)));
    std::ofstream(folder_ / "golden.json") << json_;
  }

  // Moves the largest value by this part of itself.
  void change(const std::string& name, float part) {
    std::vector<float>& values = values_.at(name).values;
    auto largest = std::max_element(values.begin(), values.end(),
                                    [](float a, float b) { return std::abs(a) < std::abs(b); });
    *largest *= 1 + part;
  }

  test::TempDir folder_;
  std::map<std::string, RecordedValues> values_;
  nlohmann::json json_;
};

TEST_F(LogitsParityTest, FindsEqualValuesEqual) {
  const LogitsParity parity = check();
  EXPECT_TRUE(parity.ok());
  EXPECT_FALSE(parity.rows.empty());
  for (const LogitsParityRow& row : parity.rows) EXPECT_EQ(row.worst, 0) << row.what;
}

TEST_F(LogitsParityTest, ComparesEveryFloat32ValueAndSaysWhatIsLeft) {
  for (const std::string& name : check().not_compared) EXPECT_TRUE(name.starts_with("bf16.")) << name;
  values_["f32.short.layers.1.mystery"] = {{1}, {0}, false};
  EXPECT_THAT(check().not_compared, Contains("f32.short.layers.1.mystery"));
}

TEST_F(LogitsParityTest, NoticesAChangedLogit) {
  change("f32.short.logits", 0.01F);
  EXPECT_THAT(too_far(), ElementsAre("f32 logits"));
}

TEST_F(LogitsParityTest, NoticesAChangedInnerValue) {
  change("f32.short.layers.2.ffn_out", 0.001F);
  EXPECT_THAT(too_far(), ElementsAre("f32 ffn_out"));
}

TEST_F(LogitsParityTest, NoticesAnotherExpert) {
  float& id = values_.at("f32.short.layers.1.expert_ids").values.front();
  id = id == 0 ? 1 : 0;
  EXPECT_THAT(too_far(), Contains("f32 expert_ids that differ"));
}

TEST_F(LogitsParityTest, NoticesAChangedBf16Module) {
  change("bf16.short.layers.0.attn_out", 0.5F);
  EXPECT_THAT(too_far(), ElementsAre("bf16 KDA output"));
}

TEST_F(LogitsParityTest, NoticesOtherGreedyTokensUpToTheFirstUndecidedOne) {
  const LoadedModel weights = LoadedModel::load(test::mini_model(), {});
  const std::vector<float>& logits = values_.at("f32.short.logits").values;
  const std::size_t vocabulary = weights.config().vocab_size;
  const auto last = logits.end() - static_cast<std::ptrdiff_t>(vocabulary);
  const auto top = static_cast<TokenId>(std::max_element(last, logits.end()) - last);
  const auto set = [&](std::vector<TokenId> ids, std::vector<double> margins) {
    json_["greedy"] = {{"f32.short", {{"ids", std::move(ids)}, {"margins", std::move(margins)}}}};
  };
  set({top}, {0.5});
  EXPECT_THAT(too_far(), IsEmpty());
  set({(top + 1) % 256}, {0.5});
  EXPECT_THAT(too_far(), ElementsAre("f32 greedy ids that differ"));
  set({(top + 1) % 256}, {1e-4});
  EXPECT_THAT(too_far(), IsEmpty());
}

TEST_F(LogitsParityTest, NoNumberIsNear) {
  values_.at("f32.short.final_in").values.front() = NAN;
  EXPECT_THAT(too_far(), ElementsAre("f32 final_in"));
}

TEST_F(LogitsParityTest, RefusesValuesOfAnotherShape) {
  values_["f32.short.final_in"] = {{1, 2}, {1, 2}, false};
  EXPECT_ERROR(check(), ErrorCode::kCorrupt, "f32.short.final_in");
}

TEST_F(LogitsParityTest, RefusesPositionsBeyondThePrompt) {
  json_["logit_rows"]["short"] = {0, 1, 2, 3, 4, 6};
  EXPECT_ERROR(check(), ErrorCode::kCorrupt, "logit_rows of short");
}

TEST_F(LogitsParityTest, RefusesAFolderWithoutRecordedValues) {
  EXPECT_ERROR(check_logits_parity(test::mini_model(), fastest, {}), ErrorCode::kNotFound,
               "golden.safetensors");
}

TEST(LogitsParity, TheReleasedCodesValuesAreWithinTheirBounds) {
  const std::filesystem::path folder = test::shared_folder() / "goldens/k3-mini";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the golden model k3-mini is not here";
  const LogitsParity parity = check_logits_parity(folder, fastest, {});
  for (const LogitsParityRow& row : parity.rows)
    EXPECT_TRUE(row.ok()) << row.what << ": " << row.worst << " at " << row.worst_at << ", median "
                          << row.median;
  EXPECT_GE(parity.rows.size(), 30u);
  for (const std::string& name : parity.not_compared) EXPECT_FALSE(name.starts_with("f32.")) << name;
}

TEST(RelativeL2, IsTheLengthOfTheDifferenceByTheLengthOfTheValue) {
  const float found[] = {3, 5}, expected[] = {3, 4}, zero[] = {0, 0};
  EXPECT_DOUBLE_EQ(relative_l2(found, expected, 2), 1.0 / 5);
  EXPECT_EQ(relative_l2(zero, zero, 2), 0);
  EXPECT_TRUE(std::isinf(relative_l2(found, zero, 2)));
}

TEST(Distances, KeepTheWorstAndTheMedianOfEachKind) {
  Distances distances;
  for (const double distance : {0.1, 0.5, 0.2})
    distances.add("a", {0.4, 0.3}, distance, std::to_string(distance));
  distances.add("b", {0, 0}, 0, "x");
  const std::vector<LogitsParityRow> rows = distances.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].count, 3u);
  EXPECT_EQ(rows[0].worst, 0.5);
  EXPECT_EQ(rows[0].median, 0.2);
  EXPECT_EQ(rows[0].worst_at, std::to_string(0.5));
  EXPECT_FALSE(rows[0].ok());
  EXPECT_TRUE(rows[1].ok());
}

TEST(PatchedCheckpoint, HasOtherValuesInItsCopyOnlyAndDisappears) {
  const std::string name = "language_model.model.layers.0.self_attn.dt_bias";
  const test::MiniTensors before = test::read_safetensors_folder(test::mini_model());
  const std::vector<float> other(before.at(name).data.size() / 4, 0.25F);
  std::filesystem::path copy;
  {
    const PatchedCheckpoint patched(test::mini_model(), {{name, other}});
    copy = patched.folder();
    const test::MiniTensors after = test::read_safetensors_folder(copy);
    EXPECT_EQ(after.size(), before.size());
    for (const auto& [tensor, value] : after) {
      if (tensor == name) {
        EXPECT_EQ(value.as<float>(), other);
      } else {
        EXPECT_EQ(value.data, before.at(tensor).data) << tensor;
      }
    }
  }
  EXPECT_FALSE(std::filesystem::exists(copy));
  EXPECT_EQ(test::read_safetensors_folder(test::mini_model()).at(name).data, before.at(name).data);
}

TEST(PatchedCheckpoint, RefusesTensorsThatAreNotThereOrDoNotFit) {
  EXPECT_ERROR(PatchedCheckpoint(test::mini_model(), {{"nothing", {1.0F}}}), ErrorCode::kNotFound, "1 of 1");
  EXPECT_ERROR(
      PatchedCheckpoint(test::mini_model(), {{"language_model.model.layers.0.self_attn.dt_bias", {1.0F}}}),
      ErrorCode::kCorrupt, "dt_bias");
}

}  // namespace
}  // namespace perigee
