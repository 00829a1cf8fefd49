#include "engines/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "checkpoint/schema.h"
#include "convert/metadata.h"
#include "convert/output_tensors.h"
#include "support/paths.h"

namespace perigee {
namespace {

using nlohmann::json;

const std::filesystem::path kGoldens = test::data_folder() / "convert";

std::string source_text() {
  return read_small_file(kGoldens / "source/config.json", 1 << 20);
}
json golden(const std::string& name) {
  return json::parse(read_small_file(kGoldens / name, 1 << 20));
}

// The modules of a conversion of the released tensors that a config asks for.
std::vector<StoredModule> converted_modules(const K3Config& config, Layout layout) {
  std::vector<TensorInfo> outputs;
  for (const SchemaShard& shard : released_layout(config)) {
    for (const TensorInfo& tensor : shard.tensors) {
      for (OutputTensor& output :
           output_tensors(tensor, {ExpertFormat::kMxfp4, false, layout, Activations::kNone})) {
        outputs.push_back(std::move(output.info));
      }
    }
  }
  return stored_modules(outputs);
}

std::vector<StoredModule> modules(Layout layout) {
  return converted_modules(parse_config(source_text(), "config.json"), layout);
}

json metadata(Layout layout, Activations activations = Activations::kPlaceholder) {
  return json::parse(make_metadata(source_text(), "config.json", parse_config(source_text(), "config.json"),
                                   layout, activations)
                         .config_json);
}

// The metadata with one more entry in its exclusion list, or one fewer.
json with_entry(Layout layout, const std::string& entry) {
  json config = metadata(layout);
  config["quantization_config"]["ignore"].push_back(entry);
  return config;
}
json without_entry(Layout layout, const std::string& entry) {
  json config = metadata(layout);
  json& list = config["quantization_config"]["ignore"];
  const auto found = std::find(list.begin(), list.end(), entry);
  EXPECT_NE(found, list.end()) << entry;
  list.erase(found);
  return config;
}

bool found_by(const MatcherReport& report, MatcherFault fault, Engine engine,
              const std::string& part_of_name) {
  return std::any_of(report.findings.begin(), report.findings.end(), [&](const MatcherFinding& finding) {
    return finding.fault == fault && finding.engine == engine &&
           finding.runtime_name.find(part_of_name) != std::string::npos;
  });
}

TEST(EngineMatcher, OurOwnMetadataIsReadAsMeantByBothEngines) {
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors, Layout::kNvidiaMixed}) {
    for (const Activations activations : {Activations::kNone, Activations::kPlaceholder}) {
      const MatcherReport report = check_exclusions(metadata(layout, activations), modules(layout));
      EXPECT_TRUE(report.clean()) << layout_name(layout) << ": " << report.first_problem();
      EXPECT_TRUE(report.unchecked.empty()) << report.unchecked.front();
      EXPECT_GT(report.names_checked, 500u);
    }
  }
}

TEST(EngineMatcher, AcceptsTheMixedFilesThatModelOptWrote) {
  const auto stored = modules(Layout::kNvidiaMixed);
  const MatcherReport config = check_exclusions(golden("mixed_modelopt/config.json"), stored);
  EXPECT_TRUE(config.clean()) << config.first_problem();
  const MatcherReport hf = check_exclusions(golden("mixed_modelopt/hf_quant_config.json"), stored);
  EXPECT_TRUE(hf.clean()) << hf.first_problem();
  const MatcherReport experts_only =
      check_exclusions(golden("cast_modelopt/config.json"), modules(Layout::kModelOpt));
  EXPECT_TRUE(experts_only.clean()) << experts_only.first_problem();
}

TEST(EngineMatcher, CollectsModulesWithMatricesOnly) {
  const auto stored = modules(Layout::kNvidiaMixed);
  const auto stored_as = [&](const std::string& name) {
    const auto found =
        std::find_if(stored.begin(), stored.end(), [&](const StoredModule& m) { return m.name == name; });
    return found == stored.end() ? -1 : static_cast<int>(found->stored);
  };
  EXPECT_EQ(stored_as("language_model.model.layers.1.block_sparse_moe.experts.0.w1"),
            static_cast<int>(StoredAs::kFp4));
  EXPECT_EQ(stored_as("language_model.model.layers.1.self_attn.q_proj"), static_cast<int>(StoredAs::kFp8));
  EXPECT_EQ(stored_as("language_model.model.layers.1.block_sparse_moe.gate"),
            static_cast<int>(StoredAs::kFloat));
  EXPECT_EQ(stored_as("language_model.lm_head"), static_cast<int>(StoredAs::kFloat));
  EXPECT_EQ(stored_as("language_model.model.embed_tokens"), -1);
  EXPECT_EQ(stored_as("language_model.model.layers.1.self_attn.q_conv1d"), -1);
  EXPECT_EQ(stored_as("language_model.model.norm"), -1);
}

TEST(EngineMatcher, CatchesGlobsThatSwallowTheExperts) {
  for (const char* entry : {"*mlp*", "*block_sparse_moe*", "*experts*", "*layers.1.mlp*", "*layers.1*"}) {
    const MatcherReport report =
        check_exclusions(with_entry(Layout::kModelOpt, entry), modules(Layout::kModelOpt));
    EXPECT_TRUE(found_by(report, MatcherFault::kExpertExcluded, Engine::kVllm, ".experts")) << entry;
    EXPECT_TRUE(found_by(report, MatcherFault::kExpertExcluded, Engine::kSglang, ".experts")) << entry;
    EXPECT_FALSE(report.clean());
  }
}

TEST(EngineMatcher, CatchesPlainWordsThatVllmFindsInsideTheExpertsNames) {
  for (const char* entry : {"mlp", "expert", "layers.1", "block_sparse_moe.experts"}) {
    const MatcherReport report =
        check_exclusions(with_entry(Layout::kModelOpt, entry), modules(Layout::kModelOpt));
    EXPECT_TRUE(found_by(report, MatcherFault::kExpertExcluded, Engine::kVllm, ".experts")) << entry;
  }
  // SGLang compares whole dotted parts.
  const MatcherReport part =
      check_exclusions(with_entry(Layout::kModelOpt, "experts"), modules(Layout::kModelOpt));
  EXPECT_TRUE(found_by(part, MatcherFault::kExpertExcluded, Engine::kSglang, ".experts"));
  const MatcherReport inside =
      check_exclusions(with_entry(Layout::kModelOpt, "expert"), modules(Layout::kModelOpt));
  EXPECT_FALSE(found_by(inside, MatcherFault::kExpertExcluded, Engine::kSglang, ".experts"));
}

TEST(EngineMatcher, OneListedExpertExcludesItsBankInVllm) {
  const json config =
      with_entry(Layout::kModelOpt, "language_model.model.layers.1.block_sparse_moe.experts.3.w2");
  const MatcherReport report = check_exclusions(config, modules(Layout::kModelOpt));
  EXPECT_TRUE(
      found_by(report, MatcherFault::kExpertExcluded, Engine::kVllm, "layers.1.block_sparse_moe.experts"));
  EXPECT_FALSE(
      found_by(report, MatcherFault::kExpertExcluded, Engine::kVllm, "layers.2.block_sparse_moe.experts"));
}

TEST(EngineMatcher, LayerZeroIsNotLayerTen) {
  json config = metadata(Layout::kModelOpt);
  const std::vector<StoredModule> stored = {
      {"language_model.model.layers.0.mlp.gate_proj", StoredAs::kFloat},
      {"language_model.model.layers.10.block_sparse_moe.experts.0.w1", StoredAs::kFp4},
      {"language_model.model.layers.20.block_sparse_moe.experts.0.w1", StoredAs::kFp4}};
  json& list = config["quantization_config"]["ignore"];
  list = {"*layers.0.mlp*"};
  EXPECT_TRUE(check_exclusions(config, stored).clean());
  list = {"*layers.0.mlp.*"};
  EXPECT_TRUE(check_exclusions(config, stored).clean());
  list = {"*0.mlp.*"};
  const MatcherReport loose = check_exclusions(config, stored);
  EXPECT_TRUE(found_by(loose, MatcherFault::kExpertExcluded, Engine::kVllm, "layers.10.mlp.experts"));
  EXPECT_TRUE(found_by(loose, MatcherFault::kExpertExcluded, Engine::kSglang, "layers.20.mlp.experts"));
  // The trailing star is split off by vLLM, and what is left is looked for as a substring.
  list = {"*layers.0.mlp.*", "model.layers.1*"};
  const MatcherReport split = check_exclusions(config, stored);
  EXPECT_TRUE(found_by(split, MatcherFault::kExpertExcluded, Engine::kVllm, "layers.10."));
  EXPECT_FALSE(found_by(split, MatcherFault::kExpertExcluded, Engine::kVllm, "layers.20."));
}

TEST(EngineMatcher, CatchesEveryForgottenEntryOfOurList) {
  const auto stored = modules(Layout::kModelOpt);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"*self_attn*", "self_attn.q_proj"},
      {"*shared_experts*", "shared_experts.down_proj"},
      {"*block_sparse_moe.gate", "block_sparse_moe.gate"},
      {"*mlp.gate", "mlp.gate"},
      {"*routed_expert_down_proj", "routed_expert_down_proj"},
      {"*routed_expert_up_proj", "routed_expert_up_proj"},
      {"*mlp_res_proj", "mlp_res_proj"},
      {"*self_attention_res_proj", "self_attention_res_proj"},
      {"*output_attn_res_proj", "output_attn_res_proj"},
      {"*layers.0.mlp.*", "layers.0.mlp.gate_up_proj"},
      {"*lm_head", "lm_head"},
      {"*vision_tower*", "vision_tower"},
      {"*mm_projector*", "mm_projector"}};
  for (const auto& [entry, module] : cases) {
    const MatcherReport report = check_exclusions(without_entry(Layout::kModelOpt, entry), stored);
    for (const Engine engine : {Engine::kVllm, Engine::kSglang}) {
      EXPECT_GT(report.count(MatcherFault::kLinearQuantised), 0u) << entry;
      EXPECT_EQ(report.count(MatcherFault::kExpertExcluded), 0u) << entry;
      const bool among_first = report.count(MatcherFault::kLinearQuantised) <= 20;
      if (among_first) {
        EXPECT_TRUE(found_by(report, MatcherFault::kLinearQuantised, engine, module)) << entry;
      }
    }
  }
}

TEST(EngineMatcher, CatchesForgottenEntriesOfCompressedTensors) {
  const auto stored = modules(Layout::kCompressedTensors);
  const json whole = metadata(Layout::kCompressedTensors);
  for (const json& entry : whole.at("quantization_config").at("ignore")) {
    const MatcherReport report =
        check_exclusions(without_entry(Layout::kCompressedTensors, entry.get<std::string>()), stored);
    EXPECT_GT(report.count(MatcherFault::kLinearQuantised), 0u) << entry;
  }
}

TEST(EngineMatcher, CatchesExpressionsThatIgnoreExperts) {
  const auto stored = modules(Layout::kCompressedTensors);
  for (const char* entry : {"re:.*mlp.*", "re:.*experts.*", "re:.*w1", "Linear", "re:.*block_sparse_moe.*",
                            "language_model.model.layers.1.block_sparse_moe.experts.0.w1"}) {
    const MatcherReport report = check_exclusions(with_entry(Layout::kCompressedTensors, entry), stored);
    EXPECT_GT(report.count(MatcherFault::kExpertExcluded), 0u) << entry;
  }
  // re.match begins at the start of the name.
  EXPECT_TRUE(check_exclusions(with_entry(Layout::kCompressedTensors, "re:experts"), stored).clean());
}

TEST(EngineMatcher, TargetsThatMissTheExpertsLeaveThemUnquantised) {
  json config = metadata(Layout::kCompressedTensors);
  json& targets = config["quantization_config"]["config_groups"]["group_0"]["targets"];
  targets = {"re:.*experts.*", "re:.*shared.*"};
  const auto stored = modules(Layout::kCompressedTensors);
  EXPECT_TRUE(check_exclusions(config, stored).clean());
  targets = {"re:.*self_attn.*"};
  EXPECT_GT(check_exclusions(config, stored).count(MatcherFault::kExpertExcluded), 0u);
}

TEST(EngineMatcher, PartsOfAFusedModuleMustBeTreatedAlike) {
  json config = metadata(Layout::kCompressedTensors);
  json& list = config["quantization_config"]["ignore"];
  list.erase(std::find(list.begin(), list.end(), "re:.*shared_experts.*"));
  list.push_back("re:.*shared_experts\\.gate_proj");
  const MatcherReport report = check_exclusions(config, modules(Layout::kCompressedTensors));
  EXPECT_TRUE(
      found_by(report, MatcherFault::kFusedDisagreement, Engine::kVllm, "shared_experts.gate_up_proj"));

  auto stored = modules(Layout::kNvidiaMixed);
  for (StoredModule& module : stored) {
    if (module.name.ends_with("layers.1.self_attn.v_proj")) module.stored = StoredAs::kFloat;
  }
  const MatcherReport mixed = check_exclusions(metadata(Layout::kNvidiaMixed), stored);
  EXPECT_TRUE(found_by(mixed, MatcherFault::kFusedDisagreement, Engine::kSglang, "fused_qkvg_proj"));
  EXPECT_TRUE(found_by(mixed, MatcherFault::kFusedDisagreement, Engine::kVllm, "in_proj_qkvgfab"));
}

TEST(EngineMatcher, CatchesFp8ThatEnginesWouldReadAsBf16) {
  json config = metadata(Layout::kNvidiaMixed);
  config["quantization_config"]["ignore"].push_back("*self_attn.f_b_proj*");
  const MatcherReport report = check_exclusions(config, modules(Layout::kNvidiaMixed));
  EXPECT_TRUE(found_by(report, MatcherFault::kWrongFormat, Engine::kVllm, "f_b_proj"));
  EXPECT_TRUE(found_by(report, MatcherFault::kWrongFormat, Engine::kSglang, "f_b_proj"));

  json table = metadata(Layout::kNvidiaMixed);
  table["quantization_config"]["quantized_layers"].erase("layers.1.mlp.experts");
  table["quantization_config"]["quantized_layers"].erase("model.layers.2.self_attn.o_proj");
  const MatcherReport missing = check_exclusions(table, modules(Layout::kNvidiaMixed));
  EXPECT_TRUE(found_by(missing, MatcherFault::kExpertExcluded, Engine::kSglang, "layers.1.mlp.experts"));
  EXPECT_TRUE(
      found_by(missing, MatcherFault::kWrongFormat, Engine::kSglang, "model.layers.2.self_attn.o_proj"));
}

TEST(EngineMatcher, TheReleasedManifestLeftInsideIsAProblem) {
  json config = metadata(Layout::kModelOpt);
  config["text_config"]["quantization_config"] =
      json::parse(source_text()).at("text_config").at("quantization_config");
  const MatcherReport report = check_exclusions(config, modules(Layout::kModelOpt));
  EXPECT_FALSE(report.clean());
  EXPECT_NE(report.first_problem().find("second quantization_config"), std::string::npos);
}

TEST(EngineMatcher, ProblemsOfTheManifestAreSentencesNotCrashes) {
  const auto stored = modules(Layout::kModelOpt);
  json only_other_key = metadata(Layout::kModelOpt);
  only_other_key["quantization_config"].erase("ignore");
  EXPECT_NE(check_exclusions(only_other_key, stored).first_problem().find("\"ignore\""), std::string::npos);

  for (
      const char* text :
      {R"({})", R"([])", R"("x")", R"({"quantization_config": 3})", R"({"quantization_config": {}})",
       R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": 7, "ignore": [1]}})",
       R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "INT3", "ignore": []}})",
       R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "ignore": []}})",
       R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "ignore": [],
            "quantized_layers": {"a": 1}}})",
       R"({"quantization_config": {"quant_method": "compressed-tensors", "ignore": [], "config_groups": {"g": 1}}})",
       R"({"quantization": {"quant_algo": "NVFP4"}})",
       R"({"quantization_config": {"quant_method": "awq"}})"}) {
    const MatcherReport report = check_exclusions(json::parse(text), stored);
    EXPECT_FALSE(report.manifest_problems.empty()) << text;
    EXPECT_FALSE(report.clean()) << text;
  }
}

TEST(EngineMatcher, NamesPatternsThatItCannotJudge) {
  const MatcherReport report = check_exclusions(with_entry(Layout::kCompressedTensors, "re:^(?!.*experts).*"),
                                                modules(Layout::kCompressedTensors));
  ASSERT_EQ(report.unchecked.size(), 1u);
  EXPECT_NE(report.unchecked.front().find("(?!.*experts)"), std::string::npos);
}

TEST(EngineMatcher, EndlessListsStayCheap) {
  json config = metadata(Layout::kModelOpt);
  json& list = config["quantization_config"]["ignore"];
  for (int i = 0; i < 100'000; ++i) list.push_back("unrelated." + std::to_string(i));
  const MatcherReport report =
      check_exclusions(config, std::vector<StoredModule>{{"language_model.lm_head", StoredAs::kFloat}});
  EXPECT_FALSE(report.unchecked.empty());
}

}  // namespace
}  // namespace perigee
