#include "convert/metadata.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/config.h"
#include "support/paths.h"

namespace perigee {
namespace {

using nlohmann::json;

const std::filesystem::path kGoldens = test::data_folder() / "convert";

std::string read(const std::string& name) {
  return read_small_file(kGoldens / name, 1 << 20);
}

Metadata convert(const std::string& text, Layout layout, Activations activations) {
  return make_metadata(text, "config.json", parse_config(text, "config.json"), layout, activations);
}

Metadata convert_source(Layout layout, Activations activations = Activations::kPlaceholder) {
  return convert(read("source/config.json"), layout, activations);
}

std::string failure(const std::string& text, Layout layout) {
  try {
    convert(text, layout, Activations::kPlaceholder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The source's config with something put into it.
template <typename Change>
std::string changed_source(Change change) {
  json config = json::parse(read("source/config.json"));
  change(config);
  return config.dump();
}

TEST(Metadata, MixedLayoutEqualsWhatModelOptWrites) {
  const Metadata made = convert_source(Layout::kNvidiaMixed);
  json config = json::parse(made.config_json);
  EXPECT_EQ(config.at("quantization_config").at("ignore"),
            config.at("quantization_config").at("exclude_modules"));
  config.at("quantization_config").erase("exclude_modules");  // ours; ModelOpt writes only "ignore" here
  EXPECT_EQ(config, json::parse(read("mixed_modelopt/config.json")));
  EXPECT_EQ(json::parse(made.hf_quant_config_json.value()),
            json::parse(read("mixed_modelopt/hf_quant_config.json")));
}

TEST(Metadata, ExceptForTheManifestTheConfigIsTheSources) {
  json source = json::parse(read("source/config.json"));
  source.at("text_config").erase("quantization_config");
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors, Layout::kNvidiaMixed}) {
    json config = json::parse(convert_source(layout).config_json);
    EXPECT_EQ(config.erase("quantization_config"), 1u);
    EXPECT_EQ(config, source) << layout_name(layout);
  }
}

TEST(Metadata, NoWordOfMxfp4RemainsInAnNvfp4Checkpoint) {
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors, Layout::kNvidiaMixed}) {
    const Metadata made = convert_source(layout);
    EXPECT_EQ(made.config_json.find("mxfp4"), std::string::npos) << layout_name(layout);
    if (made.hf_quant_config_json) {
      EXPECT_EQ(made.hf_quant_config_json->find("mxfp4"), std::string::npos);
    }
  }
}

TEST(Metadata, ModelOptSaysNvfp4OrWeightOnly) {
  const Metadata placeholder = convert_source(Layout::kModelOpt);
  const json flat = json::parse(placeholder.config_json).at("quantization_config");
  EXPECT_EQ(flat.at("quant_method"), "modelopt");
  EXPECT_EQ(flat.at("quant_algo"), "NVFP4");
  EXPECT_EQ(flat.at("group_size"), 16);
  EXPECT_TRUE(flat.at("kv_cache_scheme").is_null());
  EXPECT_EQ(flat.at("ignore"), flat.at("exclude_modules"));
  const json number = {{"dynamic", false}, {"num_bits", 4}, {"type", "float"}, {"group_size", 16}};
  const json group = {{"targets", {"Linear"}}, {"weights", number}, {"input_activations", number}};
  EXPECT_EQ(flat.at("config_groups"), json({{"group_0", group}}));

  const json nested = json::parse(placeholder.hf_quant_config_json.value()).at("quantization");
  EXPECT_EQ(nested, json({{"quant_algo", "NVFP4"},
                          {"kv_cache_quant_algo", nullptr},
                          {"group_size", 16},
                          {"exclude_modules", flat.at("ignore")}}));

  const Metadata none = convert_source(Layout::kModelOpt, Activations::kNone);
  const json weight_only = json::parse(none.config_json).at("quantization_config");
  EXPECT_EQ(weight_only.at("quant_algo"), "W4A16_NVFP4");
  EXPECT_TRUE(weight_only.at("config_groups").at("group_0").at("input_activations").is_null());
  EXPECT_EQ(json::parse(none.hf_quant_config_json.value()).at("quantization").at("quant_algo"),
            "W4A16_NVFP4");
}

TEST(Metadata, CompressedTensorsWritesOnlyKeysThatItsSchemaAllows) {
  const Metadata made = convert_source(Layout::kCompressedTensors, Activations::kNone);
  EXPECT_FALSE(made.hf_quant_config_json);
  const json manifest = json::parse(made.config_json).at("quantization_config");
  const json weights = {{"actorder", nullptr},
                        {"block_structure", nullptr},
                        {"dynamic", false},
                        {"group_size", 16},
                        {"num_bits", 4},
                        {"observer", "memoryless_minmax"},
                        {"observer_kwargs", json::object()},
                        {"scale_dtype", "torch.float8_e4m3fn"},
                        {"strategy", "tensor_group"},
                        {"symmetric", true},
                        {"type", "float"},
                        {"zp_dtype", nullptr}};
  EXPECT_EQ(manifest.at("config_groups").at("group_0").at("weights"), weights);
  EXPECT_TRUE(manifest.at("config_groups").at("group_0").at("input_activations").is_null());
  EXPECT_EQ(manifest.at("format"), "nvfp4-pack-quantized");
  EXPECT_EQ(manifest.at("quant_method"), "compressed-tensors");
  EXPECT_EQ(manifest.at("quantization_status"), "compressed");

  const json with_inputs =
      json::parse(convert_source(Layout::kCompressedTensors).config_json).at("quantization_config");
  json inputs = weights;
  inputs["dynamic"] = "local";
  inputs["observer"] = "static_minmax";
  EXPECT_EQ(with_inputs.at("config_groups").at("group_0").at("input_activations"), inputs);
}

TEST(Metadata, TheWayBackRestoresTheReleasedConfig) {
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors, Layout::kNvidiaMixed}) {
    const Metadata there = convert_source(layout);
    const Metadata back = convert(there.config_json, Layout::kMxfp4, Activations::kNone);
    EXPECT_FALSE(back.hf_quant_config_json);
    EXPECT_EQ(json::parse(back.config_json), json::parse(read("source/config.json"))) << layout_name(layout);
  }
}

TEST(Metadata, IsDeterministicSortedAndEndsInANewline) {
  const std::string text = convert_source(Layout::kModelOpt).config_json;
  EXPECT_EQ(text, convert_source(Layout::kModelOpt).config_json);
  EXPECT_EQ(text, json::parse(text).dump(2) + "\n");  // nlohmann's objects are sorted
  EXPECT_NE(text.find("\"rms_norm_eps\": 1e-05"), std::string::npos);
}

TEST(Metadata, RemovesManifestsWhereverAUserMovedThem) {
  const std::string text = changed_source([](json& config) {
    config["quantization_config"] = config["text_config"]["quantization_config"];
    config["vision_config"]["quantization_config"] = config["quantization_config"];
  });
  json config = json::parse(convert(text, Layout::kModelOpt, Activations::kNone).config_json);
  EXPECT_FALSE(config.at("text_config").contains("quantization_config"));
  EXPECT_FALSE(config.at("vision_config").contains("quantization_config"));
  EXPECT_EQ(config.at("quantization_config").at("quant_method"), "modelopt");
}

TEST(Metadata, RefusesRemainsOfMxfp4ByTheirPath) {
  const std::string value =
      changed_source([](json& config) { config["text_config"]["_name_or_path"] = "someone/K3-MXFP4"; });
  EXPECT_NE(failure(value, Layout::kModelOpt).find("/text_config/_name_or_path"), std::string::npos);
  const std::string key = changed_source([](json& config) { config["extra"] = {{"use_mxfp4", true}}; });
  EXPECT_NE(failure(key, Layout::kCompressedTensors).find("/extra/use_mxfp4"), std::string::npos);
  const std::string manifest = changed_source([](json& config) {
    config["list"] = {{{"quantization_config", json::object()}}};
  });
  EXPECT_NE(failure(manifest, Layout::kNvidiaMixed).find("/list/0/quantization_config"), std::string::npos);
  EXPECT_EQ(failure(value, Layout::kMxfp4), "");
}

TEST(Metadata, RefusesDamagedJson) {
  const K3Config config = parse_config(read("source/config.json"), "config.json");
  const auto code_of = [&](const std::string& text) {
    try {
      make_metadata(text, "config.json", config, Layout::kModelOpt, Activations::kNone);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code_of("{"), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of("[]"), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of("{\"a\": \"\xff\"}"), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of(std::string(1'000'000, '[')), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace perigee
