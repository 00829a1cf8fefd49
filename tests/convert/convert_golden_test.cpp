// Whole conversions against what compressed-tensors and ModelOpt made of the same checkpoints, bit for bit.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "convert_fixture.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

using test::golden;
using test::MiniTensors;

class ConvertGolden : public testing::Test {
 protected:
  MiniTensors convert(const std::string& source, const std::function<void(ConvertOptions&)>& change) {
    ConvertOptions options = test::convert_options(golden(source), dir_ / "out");
    change(options);
    outcome_ = convert_checkpoint(options);
    return test::read_safetensors_folder(dir_ / "out");
  }

  // Every tensor of the golden file is among `made`, equal to the last bit. ModelOpt stores a source's -0 as
  // 0, we keep it: with the source given, nibbles that are -0 there are compared as 0.
  static void expect_golden(const MiniTensors& made, const std::string& golden_file,
                            const std::string& source = "") {
    const MiniTensors expected = test::read_safetensors(golden(golden_file));
    MiniTensors before;
    if (!source.empty()) before = test::read_safetensors_folder(golden(source));
    ASSERT_FALSE(expected.empty());
    for (const auto& [name, tensor] : expected) {
      ASSERT_TRUE(made.contains(name)) << name;
      const test::MiniTensor& ours = made.at(name);
      EXPECT_EQ(ours.dtype, tensor.dtype) << name;
      EXPECT_EQ(ours.shape, tensor.shape) << name;
      const bool nibbles = name.ends_with(".weight") && tensor.dtype == "U8" && !source.empty();
      EXPECT_EQ(
          nibbles ? test::with_zeros_where_negative(ours.data, before.at(name + "_packed").data) : ours.data,
          tensor.data)
          << name;
    }
  }

  // Tensors that the conversion has no business with are the source's, and nothing else is there.
  static void expect_rest_untouched(const MiniTensors& made, const std::string& source,
                                    const std::string& golden_file) {
    const MiniTensors expected = test::read_safetensors(golden(golden_file));
    const MiniTensors before = test::read_safetensors_folder(golden(source));
    for (const auto& [name, tensor] : made) {
      if (expected.contains(name)) continue;
      ASSERT_TRUE(before.contains(name)) << name << " came from nowhere";
      EXPECT_EQ(tensor.dtype, before.at(name).dtype) << name;
      EXPECT_EQ(tensor.data, before.at(name).data) << name;
    }
  }

  static nlohmann::json expected() {
    std::ifstream stream(golden("expected.json"));
    return nlohmann::json::parse(stream)["checkpoints"];
  }

  nlohmann::json index() const {
    return nlohmann::json::parse(read_small_file(dir_ / "out" / "model.safetensors.index.json", 1 << 24));
  }

  test::TempDir dir_;
  ConvertOutcome outcome_;
};

TEST_F(ConvertGolden, CastInModelOptLayoutEqualsModelOpt) {
  const MiniTensors made = convert("source", [](ConvertOptions&) {});
  expect_golden(made, "cast_modelopt/experts.safetensors", "source");
  expect_rest_untouched(made, "source", "cast_modelopt/experts.safetensors");
  EXPECT_TRUE(outcome_.report.lossless());
  EXPECT_EQ(index()["metadata"]["total_size"], expected()["source"]["modelopt_total_size"]);
  EXPECT_EQ(index()["weight_map"].size(), expected()["source"]["modelopt_tensors"]);
}

TEST_F(ConvertGolden, CastKeepsNegativeZeros) {
  const MiniTensors made = convert("source", [](ConvertOptions&) {});
  for (const auto& [name, tensor] : test::read_safetensors_folder(golden("source"))) {
    if (!name.ends_with(".weight_packed")) continue;
    const std::string module = name.substr(0, name.size() - std::string(".weight_packed").size());
    EXPECT_EQ(made.at(module + ".weight").data, tensor.data) << name;
  }
}

TEST_F(ConvertGolden, CastInCompressedTensorsLayoutEqualsCompressedTensors) {
  const MiniTensors made = convert("source", [](ConvertOptions& options) {
    options.layout = Layout::kCompressedTensors;
    options.activations = Activations::kNone;
  });
  expect_golden(made, "cast_ct/experts.safetensors");
  expect_rest_untouched(made, "source", "cast_ct/experts.safetensors");
  EXPECT_EQ(index()["metadata"]["total_size"], expected()["source"]["ct_total_size"]);
  EXPECT_EQ(index()["weight_map"].size(), expected()["source"]["ct_tensors"]);
}

TEST_F(ConvertGolden, RequantisationEqualsCompressedTensors) {
  const MiniTensors made = convert("source", [](ConvertOptions& options) {
    options.layout = Layout::kCompressedTensors;
    options.activations = Activations::kNone;
    options.policy.method = Method::kRequant;
  });
  expect_golden(made, "requant_ct/experts.safetensors");
  EXPECT_FALSE(outcome_.report.lossless());
  // The report's error is that of the verifier, whose sums per module are held against the goldens elsewhere.
  const double error = outcome_.report.expert_error.relative_rmse();
  double smallest = 1;
  double largest = 0;
  const nlohmann::json modules = expected()["source"]["modules"];
  for (const auto& [name, module] : modules.items()) {
    const auto rmse = module["requant"]["rel_rmse"].get<double>();
    smallest = std::min(smallest, rmse);
    largest = std::max(largest, rmse);
  }
  EXPECT_GT(error, smallest);
  EXPECT_LT(error, largest);
}

TEST_F(ConvertGolden, RequantisationEqualsModelOpt) {
  const MiniTensors made =
      convert("source", [](ConvertOptions& options) { options.policy.method = Method::kRequant; });
  expect_golden(made, "requant_modelopt/experts.safetensors");
}

TEST_F(ConvertGolden, MixedLayoutEqualsNvidiasRecipe) {
  const MiniTensors made =
      convert("source", [](ConvertOptions& options) { options.layout = Layout::kNvidiaMixed; });
  expect_golden(made, "mixed_modelopt/attention.safetensors");
  expect_golden(made, "cast_modelopt/experts.safetensors", "source");
  EXPECT_EQ(index()["metadata"]["total_size"], expected()["source"]["mixed_total_size"]);
  EXPECT_FALSE(outcome_.report.lossless()) << "FP8 attention is rounded";
}

TEST_F(ConvertGolden, SaturationEqualsModelOpt) {
  const MiniTensors made = convert(
      "source_overspan", [](ConvertOptions& options) { options.policy.over_span = OverSpan::kSaturate; });
  expect_golden(made, "overspan_modelopt/experts.safetensors", "source_overspan");
  EXPECT_FALSE(outcome_.report.lossless());
  EXPECT_EQ(outcome_.report.over_span_groups, expected()["source_overspan"]["counts"]["overspan_blocks32"]);
}

TEST_F(ConvertGolden, RequantisesOnlyTheOverSpanSets) {
  convert("source_overspan", [](ConvertOptions& options) { options.policy.over_span = OverSpan::kRequant; });
  EXPECT_EQ(outcome_.report.modules_by_action,
            (std::map<std::string, std::uint64_t>{{"cast", 13}, {"requant", 5}}));
}

TEST_F(ConvertGolden, ZeroBlocksDoNotDecideTheExponent) {
  const MiniTensors made = convert("source_corner", [](ConvertOptions& options) {
    options.layout = Layout::kCompressedTensors;
    options.activations = Activations::kNone;
  });
  expect_golden(made, "corner_ct/experts.safetensors");
}

TEST_F(ConvertGolden, ZeroBlocksDecideTheExponentWhenModelOptsBytesAreAskedFor) {
  const MiniTensors made = convert(
      "source_corner", [](ConvertOptions& options) { options.policy.max_over = MaxOver::kAllNonzeroBytes; });
  expect_golden(made, "corner_modelopt/experts.safetensors", "source_corner");
}

TEST_F(ConvertGolden, ReportHasTheNumbersOfTheGoldens) {
  convert("source", [](ConvertOptions&) {});
  const nlohmann::json source = expected()["source"];
  const nlohmann::json counts = source["counts"];
  const ConversionReport& report = outcome_.report;
  EXPECT_EQ(report.modules, counts["modules"]);
  EXPECT_EQ(report.groups, counts["blocks32"]);
  EXPECT_EQ(report.groups_kept, counts["blocks32"]);
  EXPECT_EQ(report.zero_groups, counts["zero_blocks32"]);
  EXPECT_EQ(report.marlin_unsafe_blocks, counts["marlin_unsafe_blocks16"]);
  EXPECT_EQ(report.negative_zero_nibbles, counts["neg_zero_nibbles"]);
  std::ifstream lines(dir_ / "out" / "conversion_modules.jsonl");
  std::size_t modules = 0;
  for (std::string line; std::getline(lines, line); ++modules) {
    const nlohmann::json record = nlohmann::json::parse(line);
    const nlohmann::json want = source["modules"][record["module"].get<std::string>()];
    EXPECT_EQ(record["K"], want["k_max_shared"]) << record["module"];
    EXPECT_EQ(record["k_max"], want["k_max"]) << record["module"];
    EXPECT_EQ(record["k_min"], want["k_min"]) << record["module"];
    EXPECT_EQ(record["zero_groups"], want["zero_blocks32"]) << record["module"];
    EXPECT_EQ(record["marlin_unsafe_blocks"], want["marlin_unsafe_blocks16"]) << record["module"];
    EXPECT_EQ(record["negative_zero_nibbles"], want["neg_zero_nibbles"]) << record["module"];
    for (const auto& [distance, count] : want["active_blocks32_by_d"].items()) {
      EXPECT_EQ(record["span_histogram"][std::stoul(distance)], count) << record["module"];
    }
  }
  EXPECT_EQ(modules, source["modules"].size());
}

// The refusals that the goldens list, each with its place.
class Refusals : public testing::TestWithParam<std::string> {};

TEST_P(Refusals, NameModuleRowAndGroup) {
  std::ifstream stream(golden("expected.json"));
  const nlohmann::json refusals = nlohmann::json::parse(stream)["checkpoints"][GetParam()]["refusals"];
  const MiniTensors source = test::read_safetensors_folder(golden(GetParam()));
  ASSERT_FALSE(refusals.empty());
  for (const nlohmann::json& refusal : refusals) {
    const auto module = refusal["module"].get<std::string>();
    std::vector<std::string> names = {module};
    if (!module.ends_with("w2")) {
      const std::string expert = module.substr(0, module.size() - 1);
      names = {expert + "1", expert + "3"};
    }
    std::vector<ScannedModule> modules;
    for (const std::string& name : names) {
      const test::MiniTensor& nibbles = source.at(name + ".weight_packed");
      const test::MiniTensor& scales = source.at(name + ".weight_scale");
      modules.push_back({name, scales.shape[1], nibbles.data, scales.data, {}});
      scan_mxfp4_reference(nibbles.data, scales.data, modules.back().scan);
    }
    try {
      decide_scale(modules, ScalePolicy{});
      ADD_FAILURE() << refusal << " was accepted";
    } catch (const Error& error) {
      const std::string sentence = error.what();
      EXPECT_NE(sentence.find(module), std::string::npos) << sentence;
      const nlohmann::json& place = refusal.contains("first") ? refusal["first"] : refusal;
      if (!place.contains("row")) continue;
      const std::string where =
          fmt::format("{} row {} group {} (scale byte {})", module, place["row"].get<int>(),
                      place["group32"].get<int>(), place["byte"].get<int>());
      EXPECT_NE(sentence.find(where), std::string::npos) << sentence << "\nexpected: " << where;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Refusals, testing::Values("source_overspan", "source_badscale"),
                         [](const auto& param_info) { return param_info.param.substr(7); });

TEST_F(ConvertGolden, RefusedConversionsLeaveNoShardAndNoIndex) {
  for (const char* source : {"source_overspan", "source_badscale"}) {
    EXPECT_THROW(convert(source, [](ConvertOptions&) {}), Error);
    for (const auto& [name, bytes] : test::folder_contents(dir_ / "out")) {
      EXPECT_TRUE(name.starts_with(".perigee/") || name == "model-00001-of-000002.safetensors") << name;
      EXPECT_FALSE(name.ends_with(".partial")) << name;
    }
    std::filesystem::remove_all(dir_ / "out");
  }
}

}  // namespace
}  // namespace perigee
