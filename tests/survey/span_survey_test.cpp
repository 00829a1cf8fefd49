#include "survey/span_survey.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "support/paths.h"
#include "support/temp_dir.h"
#include "survey/span_decision.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kGoldens = test::data_folder() / "convert";

nlohmann::json golden_modules(const std::string& checkpoint) {
  std::ifstream file(kGoldens / "expected.json");
  return nlohmann::json::parse(file)["checkpoints"][checkpoint]["modules"];
}

// The golden numbers of a set, summed over its modules.
struct GoldenSet {
  int k_max = 0;
  std::optional<int> k_min;
  std::uint64_t marlin_unsafe = 0, over_span = 0, zero = 0, blocks = 0;
  bool lossless = true;
};

GoldenSet golden_set(const nlohmann::json& modules, const SetSpan& set) {
  GoldenSet golden;
  for (const char* projection : {"w1", "w3", "w2"}) {
    if (set.gate_up == (std::string(projection) == "w2")) continue;
    const nlohmann::json& module = modules.at(fmt::format(
        "language_model.model.layers.{}.block_sparse_moe.experts.{}.{}", set.layer, set.expert, projection));
    golden.k_max = module["k_max_shared"];
    if (!module["k_min"].is_null()) {
      const int k_min = module["k_min"];
      golden.k_min = golden.k_min ? std::min(*golden.k_min, k_min) : k_min;
    }
    golden.marlin_unsafe += module["marlin_unsafe_blocks16"].get<std::uint64_t>();
    golden.over_span += module["overspan_blocks32"].get<std::uint64_t>();
    golden.zero += module["zero_blocks32"].get<std::uint64_t>();
    golden.blocks += module["blocks32"].get<std::uint64_t>();
    golden.lossless = module["set_lossless"];
  }
  return golden;
}

void expect_exact(const SetSpan& set, const GoldenSet& golden) {
  EXPECT_EQ(set.groups, golden.blocks);
  EXPECT_EQ(set.active_groups, golden.blocks - golden.zero);
  EXPECT_EQ(set.any_active, golden.k_min.has_value());
  if (golden.k_min) {
    EXPECT_EQ(set.max_exponent, golden.k_max);
    EXPECT_EQ(set.min_exponent, *golden.k_min);
  }
  EXPECT_EQ(set.marlin_unsafe_blocks, golden.marlin_unsafe);
  EXPECT_EQ(set.over_span_groups, golden.over_span);
}

class SpanSurveyOfGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(SpanSurveyOfGoldens, IsExactWhenAllNibblesAreRead) {
  const nlohmann::json modules = golden_modules(GetParam());
  const SpanSurvey survey = survey_spans(kGoldens / GetParam(), {.all_nibbles = true});
  EXPECT_EQ(survey.sets.size() / 2 * 3, modules.size());
  for (const SetSpan& set : survey.sets) {
    SCOPED_TRACE(fmt::format("layer {} expert {} gate_up {}", set.layer, set.expert, set.gate_up));
    const GoldenSet golden = golden_set(modules, set);
    EXPECT_EQ(set.evidence, SpanEvidence::kAllNibbles);
    EXPECT_EQ(set.verdict == SpanVerdict::kLossless, golden.lossless);
    expect_exact(set, golden);
  }
}

TEST_P(SpanSurveyOfGoldens, DecidesCorrectlyWithAsFewBytesAsItCan) {
  const nlohmann::json modules = golden_modules(GetParam());
  for (const SetSpan& set : survey_spans(kGoldens / GetParam(), {}).sets) {
    SCOPED_TRACE(fmt::format("layer {} expert {} gate_up {}", set.layer, set.expert, set.gate_up));
    const GoldenSet golden = golden_set(modules, set);
    EXPECT_EQ(set.verdict == SpanVerdict::kLossless, golden.lossless);
    EXPECT_EQ(set.groups, golden.blocks);
    if (set.evidence == SpanEvidence::kAllNibbles || golden.zero == 0) {
      expect_exact(set, golden);
    } else {
      EXPECT_GE(set.active_groups, golden.blocks - golden.zero);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, SpanSurveyOfGoldens,
                         ::testing::Values("source", "source_overspan", "source_corner"),
                         [](const auto& test) { return std::string(test.param); });

const SetSpan& find_set(const SpanSurvey& survey, int layer, int expert, bool gate_up) {
  for (const SetSpan& set : survey.sets) {
    if (set.layer == layer && set.expert == expert && set.gate_up == gate_up) return set;
  }
  throw std::runtime_error("no such set");
}

TEST(SpanSurvey, ReadsOnlyTheGroupsThatSeemNotToFit) {
  const SpanSurvey survey = survey_spans(kGoldens / "source", {});
  // Layer 2 expert 4 has zero groups far below the window; layer 1 fits by its scales.
  const SetSpan& set = find_set(survey, 2, 4, false);
  EXPECT_EQ(set.evidence, SpanEvidence::kOffendingGroups);
  EXPECT_EQ(set.max_exponent, -8);
  EXPECT_GE(set.min_exponent, -8 - 17);
  EXPECT_LT(set.active_groups, set.groups);
  EXPECT_EQ(find_set(survey, 1, 0, true).evidence, SpanEvidence::kScales);
  const SpanSurvey all = survey_spans(kGoldens / "source", {.all_nibbles = true});
  EXPECT_LT(survey.bytes_read, all.bytes_read / 3);
}

TEST(SpanSurvey, NamesWhyASetIsRefused) {
  const SpanSurvey survey = survey_spans(kGoldens / "source_badscale", {});
  EXPECT_EQ(find_set(survey, 1, 0, true).verdict, SpanVerdict::kLossless);
  EXPECT_EQ(find_set(survey, 1, 1, true).verdict, SpanVerdict::kNanScale);
  EXPECT_EQ(find_set(survey, 1, 2, false).verdict, SpanVerdict::kNanScale);  // also under zeros
  EXPECT_EQ(find_set(survey, 1, 3, false).verdict, SpanVerdict::kOverSpan);
  EXPECT_EQ(find_set(survey, 1, 4, false).verdict, SpanVerdict::kTooSmall);
  EXPECT_EQ(find_set(survey, 1, 5, false).verdict, SpanVerdict::kBeyondFloat);
  EXPECT_EQ(find_set(survey, 1, 1, true).byte_ff_groups, 1u);
  EXPECT_EQ(find_set(survey, 1, 3, false).byte_00_groups, 1u);
}

TEST(SpanSurvey, AddsUpLayers) {
  const SpanSurvey survey = survey_spans(kGoldens / "source", {.all_nibbles = true});
  ASSERT_EQ(survey.spans.size(), 2u);
  SpanTotals total;
  for (const LayerSpans& layer : survey.spans) {
    total.add(layer.gate_up);
    total.add(layer.down);
  }
  std::ifstream file(kGoldens / "expected.json");
  const nlohmann::json counts = nlohmann::json::parse(file)["checkpoints"]["source"]["counts"];
  EXPECT_EQ(total.groups, counts["blocks32"]);
  EXPECT_EQ(total.groups - total.active_groups, counts["zero_blocks32"]);
  EXPECT_EQ(total.marlin_unsafe_blocks, counts["marlin_unsafe_blocks16"]);
  EXPECT_EQ(total.over_span_groups, 0u);
  EXPECT_EQ(total.lossless_sets, total.sets);
}

// A folder with one golden safetensors file and no index.
class OneFile {
 public:
  explicit OneFile(const fs::path& file) { fs::copy_file(file, folder_ / "model.safetensors"); }
  const fs::path& path() const { return folder_.path(); }

 private:
  test::TempDir folder_;
};

TEST(SpanSurvey, CountsE4m3CodesOfNvfp4Checkpoints) {
  for (const char* golden : {"cast_modelopt", "cast_ct"}) {
    const OneFile checkpoint(kGoldens / golden / "experts.safetensors");
    const SpanSurvey survey = survey_spans(checkpoint.path(), {});
    CodeTotals total;
    for (const LayerCodes& layer : survey.codes) {
      total.add(layer.gate_up);
      total.add(layer.down);
    }
    EXPECT_EQ(total.modules, 36u);
    EXPECT_EQ(total.blocks, 2u * 6912u);
    EXPECT_EQ(total.max_code, 0x78);
    EXPECT_EQ(total.min_code, 0x01);
    // Blocks that Marlin flushes: the active ones of the source, and zero blocks below the window.
    EXPECT_GE(total.subnormal, 1480u);
    EXPECT_LE(total.subnormal, 1480u + 2u * 27u);
    EXPECT_EQ(total.not_power_of_two + total.negative + total.nan + total.zero, 0u);
  }
}

TEST(SpanSurvey, FindsScalesThatNoLosslessCastCanWrite) {
  const OneFile checkpoint(kGoldens / "requant_ct" / "experts.safetensors");
  CodeTotals total;
  for (const LayerCodes& layer : survey_spans(checkpoint.path(), {}).codes) total.add(layer.gate_up);
  EXPECT_GT(total.not_power_of_two, 0u);
  EXPECT_EQ(total.max_code, 0x7E);
}

TEST(SpanSurvey, SurveysWhatIsThereOfAPartialCheckpoint) {
  const test::TempDir folder;
  fs::copy(kGoldens / "source", folder / "ckpt");
  fs::remove(folder / "ckpt" / "model-00003-of-000003.safetensors");
  const SpanSurvey survey = survey_spans(folder / "ckpt", {});
  EXPECT_EQ(survey.missing_shards, 1u);
  EXPECT_EQ(survey.spans.size(), 1u);
  EXPECT_EQ(survey.sets.size(), 12u);
}

TEST(SpanSurvey, RefusesACheckpointWithoutExperts) {
  const OneFile checkpoint(kGoldens / "mixed_modelopt" / "attention.safetensors");
  try {
    survey_spans(checkpoint.path(), {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("no complete routed expert"));
  }
}

TEST(SpanSurvey, StopsWhenCancelled) {
  CancelToken cancel;
  cancel.cancel();
  EXPECT_THROW(survey_spans(kGoldens / "source", {.cancel = &cancel}), Error);
}

std::vector<std::byte> bytes_of(const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(ScaleBytes, ListsRunsOfGroupsFarBelowTheLargest) {
  const ScaleBytes bytes = count_scale_bytes(bytes_of({120, 102, 102, 103, 120, 0, 255}));
  EXPECT_EQ(bytes.groups[120], 2u);
  EXPECT_EQ(bytes.groups[255], 1u);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> expected = {{1, 2}, {5, 1}};
  EXPECT_EQ(bytes.far_below, expected);
}

TEST(ScaleBytes, KeepsNoListThatWouldBeLong) {
  std::vector<int> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i % 2 == 0 ? 120 : 10);
  EXPECT_TRUE(count_scale_bytes(bytes_of(values)).far_below.empty());
}

TEST(Nibbles, PlusAndMinusZeroAreZero) {
  EXPECT_TRUE(all_nibbles_zero(bytes_of({0x00, 0x80, 0x08, 0x88})));
  EXPECT_FALSE(all_nibbles_zero(bytes_of({0x00, 0x10})));
  EXPECT_FALSE(all_nibbles_zero(bytes_of({0x09})));
}

}  // namespace
}  // namespace perigee
