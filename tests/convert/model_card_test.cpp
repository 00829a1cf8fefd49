#include "convert/model_card.h"

#include <gtest/gtest.h>

#include <string>

namespace perigee {
namespace {

ConversionReport lossless_report() {
  ConversionReport report;
  report.source_name = "Kimi-K3";
  report.source_format = "mxfp4";
  report.layout = "modelopt";
  report.activations = "placeholder";
  report.method = "cast";
  report.shards = 96;
  report.tensors = 991812;
  report.total_size = 1645947954176;
  report.source_file_bytes = 1560900000000;
  report.output_file_bytes = 1646000000000;
  report.modules = 247296;
  report.modules_by_action = {{"cast", 247296}};
  report.groups = 85085650944;
  report.groups_kept = 85085650944;
  report.verification = "full";
  return report;
}

bool says(const std::string& card, const std::string& text) {
  return card.find(text) != std::string::npos;
}

TEST(ModelCard, StatesTheReportsNumbers) {
  const std::string card = make_model_card(lossless_report(), {});
  for (const char* text : {"991,812", "1,645,947,954,176", "1,560,900,000,000", "247,296", "| 96 |",
                           "Nothing. All 85,085,650,944 blocks", "That affects no block", "--layout modelopt",
                           "--activations placeholder", "--method cast"}) {
    EXPECT_TRUE(says(card, text)) << text << "\n" << card;
  }
}

// Sums of the pairs (3, 3), (4, 5): error 1, source 25, output 34, product 29.
TEST(ModelCard, StatesTheErrorThatWasMeasured) {
  EXPECT_FALSE(says(make_model_card(lossless_report(), {}), "relative RMSE"));
  ConversionReport report = lossless_report();
  report.method = "requant";
  report.expert_error = {25, 34, 29, 1, 1, 2};
  EXPECT_TRUE(says(make_model_card(report, {}),
                   "| rounding of experts | relative RMSE 0.200000, cosine 0.99469179, over 2 weights |"))
      << make_model_card(report, {});
}

TEST(ModelCard, OpensWithFrontMatter) {
  ModelCardContext context;
  EXPECT_TRUE(make_model_card(lossless_report(), context)
                  .starts_with("---\nlicense: other\nbase_model: \"moonshotai/Kimi-K3\"\n"
                               "base_model_relation: quantized\n"));
  context.license_file = "LICENSE";
  EXPECT_TRUE(says(make_model_card(lossless_report(), context), "license_link: \"LICENSE\"\n"));
}

TEST(ModelCard, DoesNotClaimLosslessnessForRoundedBlocks) {
  ConversionReport report = lossless_report();
  report.modules_by_action = {{"cast", 247294}, {"saturate", 2}};
  report.groups_kept = report.groups - 1234;
  report.over_span_groups = 1234;
  const std::string card = make_model_card(report, {});
  EXPECT_FALSE(says(card, "Nothing."));
  EXPECT_TRUE(says(card, "85,085,649,710 of 85,085,650,944"));
  EXPECT_TRUE(says(card, "1,234 blocks lie more than 17 binades"));
  EXPECT_FALSE(says(card, "That affects no block"));
}

TEST(ModelCard, SaysWhatMarlinLoses) {
  ConversionReport report = lossless_report();
  report.marlin_unsafe_blocks = 4321;
  EXPECT_TRUE(says(make_model_card(report, {}), "affects 4,321 blocks"));
}

TEST(ModelCard, SaysWhenNothingWasVerifiedOrOnlyASample) {
  ConversionReport report = lossless_report();
  report.verification = "none";
  EXPECT_TRUE(says(make_model_card(report, {}), "verification was turned off"));
  report.verification = "sample";
  EXPECT_TRUE(says(make_model_card(report, {}), "A sample of each shard"));
}

TEST(ModelCard, AnIncompleteCheckpointSaysSo) {
  ConversionReport report = lossless_report();
  EXPECT_FALSE(says(make_model_card(report, {}), "incomplete"));
  report.partial = true;
  EXPECT_TRUE(says(make_model_card(report, {}), "incomplete checkpoint"));
}

TEST(ModelCard, MixedLayoutOwnsUpToItsFp8) {
  ConversionReport report = lossless_report();
  report.layout = "nvidia-mixed";
  report.fp8_tensors = 696;
  const std::string card = make_model_card(report, {});
  EXPECT_TRUE(says(card, "The experts are exact"));
  EXPECT_TRUE(says(card, "696 attention matrices were rounded"));
  EXPECT_FALSE(says(card, "Nothing. All"));
}

TEST(ModelCard, NamesFromTheSourceCannotBreakOut) {
  ConversionReport report = lossless_report();
  report.source_name = "x`\n---\n# hi\"\x01<script>";
  ModelCardContext context;
  context.base_model = "a\"\nlicense: mit";
  const std::string card = make_model_card(report, context);
  EXPECT_FALSE(says(card, "\n# hi"));
  EXPECT_FALSE(says(card, "\nlicense: mit"));
  EXPECT_FALSE(says(card, "<script>"));
}

}  // namespace
}  // namespace perigee
