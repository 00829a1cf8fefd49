#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/malformed_cases.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace perigee::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::uint64_t> mla_layers(const K3Config& config) {
  std::vector<std::uint64_t> layers;
  for (std::uint64_t i = 0; i < config.is_mla.size(); ++i)
    if (config.is_mla[i]) layers.push_back(i);
  return layers;
}

TEST(K3Config, ReadsEveryKey) {
  const K3Config config = parse_config(valid_config(), "input");
  EXPECT_EQ(config.hidden_size, 64U);
  EXPECT_EQ(config.num_experts_per_token, 2U);
  EXPECT_EQ(config.gate_lower_bound, -5.0);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_TRUE(config.moe_renormalize);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.is_mla, ElementsAre(false, false, true));
  EXPECT_EQ(config.moe_layers(), 2U);
  EXPECT_EQ(config.vision.merge_height, 2U);
}

void expect_all_keys_required(const nlohmann::json& document, const std::string& pointer,
                              const std::string& path) {
  const nlohmann::json::json_pointer at(pointer);
  for (const auto& [key, value] : document.at(at).items()) {
    nlohmann::json without = document;
    without.at(at).erase(key);
    const std::string full = path.empty() ? key : path + "." + key;
    try {
      static_cast<void>(parse_config(without.dump(), "input"));
      ADD_FAILURE() << "accepted without " << full;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_EQ(error.what(), "input: " + full + " is missing");
    }
    if (value.is_object()) expect_all_keys_required(document, pointer + "/" + key, full);
  }
}

TEST(K3Config, HasNoDefaultForAnyKey) {
  nlohmann::json document = nlohmann::json::parse(valid_config());
  document.erase("model_type");  // the only key of the example that nothing is computed from
  expect_all_keys_required(document, "", "");
}

TEST(K3Config, CountsMoeLayersByFrequency) {
  K3Config config;
  config.num_hidden_layers = 7;
  config.first_k_dense_replace = 2;
  config.moe_layer_freq = 3;
  EXPECT_EQ(config.moe_layers(), 2U);  // layers 3 and 6
}

TEST(K3Config, ReadsTheReferenceCheckpoints) {
  for (const char* name :
       {"source", "source_overspan", "source_corner", "source_badscale", "cast_modelopt", "mixed_modelopt"}) {
    const K3Config config = load_config(test::data_folder() / "convert" / name / "config.json");
    EXPECT_EQ(config.hidden_size, 160U) << name;
    EXPECT_EQ(config.num_experts, 6U) << name;
  }
}

TEST(K3Config, ReadsTheReleasedConfig) {
  const fs::path path = test::shared_folder() / "k3/config.json";
  if (!fs::exists(path)) GTEST_SKIP() << "the released config.json is not on this machine";
  const K3Config config = load_config(path);
  EXPECT_EQ(config.hidden_size, 7168U);
  EXPECT_EQ(config.num_hidden_layers, 93U);
  EXPECT_EQ(config.vocab_size, 163840U);
  EXPECT_EQ(config.num_attention_heads, 96U);
  EXPECT_EQ(config.q_lora_rank, 1536U);
  EXPECT_EQ(config.kv_lora_rank, 512U);
  EXPECT_EQ(config.intermediate_size, 33792U);
  EXPECT_EQ(config.num_experts, 896U);
  EXPECT_EQ(config.num_experts_per_token, 16U);
  EXPECT_EQ(config.moe_intermediate_size, 3072U);
  EXPECT_EQ(config.routed_expert_hidden_size, 3584U);
  EXPECT_EQ(config.attn_res_block_size, 12U);
  EXPECT_EQ(config.max_position_embeddings, 1'048'576U);
  EXPECT_EQ(config.kda_num_heads, 96U);
  EXPECT_EQ(config.kda_head_dim, 128U);
  EXPECT_EQ(config.moe_layers(), 92U);
  EXPECT_THAT(mla_layers(config), ElementsAre(3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63,
                                              67, 71, 75, 79, 83, 87, 91, 92));
  EXPECT_EQ(config.vision.vt_num_hidden_layers, 27U);
  EXPECT_EQ(config.vision.qkv_hidden_size, 1536U);
  EXPECT_EQ(read_manifest_format(path.parent_path()), ExpertFormat::kMxfp4);
}

TEST(K3Config, ReadsTheMiniModel) {
  const fs::path path = test::shared_folder() / "goldens/k3-mini/config.json";
  if (!fs::exists(path)) GTEST_SKIP() << "the mini model is not on this machine";
  EXPECT_THAT(mla_layers(load_config(path)), ElementsAre(3, 7, 8));
}

class Manifest : public ::testing::Test {
 protected:
  ExpertFormat format(const std::string& config, const std::string& hf_quant_config = "") {
    write_file_atomically(folder_ / "config.json", config);
    if (!hf_quant_config.empty()) write_file_atomically(folder_ / "hf_quant_config.json", hf_quant_config);
    return read_manifest_format(folder_.path());
  }

  void expect_unsupported(const std::string& config, const std::string& named) {
    try {
      static_cast<void>(format(config));
      ADD_FAILURE() << "accepted " << config;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_THAT(error.what(), HasSubstr(named));
    }
  }

  TempDir folder_;
};

constexpr const char* kModelOpt = R"({"quant_method":"modelopt","quant_algo":"NVFP4"})";
constexpr const char* kCompressedMxfp4 =
    R"({"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized"})";

TEST_F(Manifest, MayBeAbsentOrNull) {
  EXPECT_EQ(format("{}"), ExpertFormat::kNone);
  EXPECT_EQ(format(R"({"quantization_config":null,"text_config":{"quantization_config":null}})"),
            ExpertFormat::kNone);
}

TEST_F(Manifest, UnderTextConfigWinsOverTheTopLevel) {
  EXPECT_EQ(format(fmt::format(R"({{"quantization_config":{},"text_config":{{"quantization_config":{}}}}})",
                               kModelOpt, kCompressedMxfp4)),
            ExpertFormat::kMxfp4);
}

TEST_F(Manifest, AtTheTopLevelWinsOverTheSeparateFile) {
  EXPECT_EQ(format(fmt::format(R"({{"quantization_config":{}}})", kCompressedMxfp4),
                   R"({"quantization":{"quant_algo":"NVFP4"}})"),
            ExpertFormat::kMxfp4);
}

TEST_F(Manifest, IsReadFromTheSeparateFileAlone) {
  EXPECT_EQ(format("{}", R"({"quantization":{"quant_algo":"W4A16_NVFP4"}})"), ExpertFormat::kNvfp4ModelOpt);
}

TEST_F(Manifest, KnowsTheMethods) {
  const auto top = [&](const char* manifest) {
    return format(fmt::format(R"({{"quantization_config":{}}})", manifest));
  };
  EXPECT_EQ(top(kModelOpt), ExpertFormat::kNvfp4ModelOpt);
  EXPECT_EQ(top(R"({"quant_method":"modelopt_mixed","quant_algo":"MIXED_PRECISION"})"),
            ExpertFormat::kNvfp4ModelOpt);
  EXPECT_EQ(top(R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"})"),
            ExpertFormat::kNvfp4CompressedTensors);
  EXPECT_EQ(top(R"({"quant_method":"mxfp4"})"), ExpertFormat::kMxfp4);
}

TEST_F(Manifest, NamesAMethodThatIsNotSupported) {
  expect_unsupported(R"({"quantization_config":{"quant_method":"awq"}})", "\"awq\"");
  expect_unsupported(R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"FP8"}})", "\"FP8\"");
  expect_unsupported(
      R"({"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized"}})",
      "\"pack-quantized\"");
}

TEST_F(Manifest, WithoutAMethodIsCorrupt) {
  for (const char* manifest :
       {"{}", "[]", "1", R"({"quant_method":1})", R"({"quant_method":"compressed-tensors"})"}) {
    try {
      static_cast<void>(format(fmt::format(R"({{"quantization_config":{}}})", manifest)));
      ADD_FAILURE() << "accepted " << manifest;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("the quantisation manifest has no text"));
    }
  }
}

TEST_F(Manifest, OfTheReferenceConversionsIsKnown) {
  const fs::path data = test::data_folder() / "convert";
  EXPECT_EQ(read_manifest_format(data / "source"), ExpertFormat::kMxfp4);
  EXPECT_EQ(read_manifest_format(data / "cast_modelopt"), ExpertFormat::kNvfp4ModelOpt);
  EXPECT_EQ(read_manifest_format(data / "mixed_modelopt"), ExpertFormat::kNvfp4ModelOpt);
}

}  // namespace
}  // namespace perigee::test
