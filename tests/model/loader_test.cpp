// What the loader accepts and what it refuses by name, on a checkpoint that the test changes.
#include <nlohmann/json.hpp>

#include "model/edit_checkpoint.h"
#include "model/forward.h"
#include "numerics/bf16.h"
#include "support/expect_error.h"
#include "support/mini_model.h"
#include "support/resident_expert.h"

namespace perigee {
namespace {

const std::string kLayer1 = "language_model.model.layers.1.";
const std::string kGate = kLayer1 + "block_sparse_moe.gate.weight";
const std::string kExpert = kLayer1 + "block_sparse_moe.experts.3.w2.";
const std::string kALog = kLayer1 + "self_attn.A_log";

class Loader : public ::testing::Test {
 protected:
  Loader() : tensors_(original()), config_(read_config()) {}

  LoadedModel load(const LoadedModel::Options& options = {}) {
    folder_ = std::make_unique<test::TempDir>();
    std::ofstream(*folder_ / "config.json") << config_;
    test::write_checkpoint(folder_->path(), *folder_ / "config.json", tensors_);
    return LoadedModel::load(folder_->path(), options);
  }
  nlohmann::json& text_config() { return config_.at("text_config"); }
  void set_layers(const std::vector<int>& full_attention, const std::vector<int>& kda) {
    text_config().at("linear_attn_config").at("full_attn_layers") = full_attention;
    text_config().at("linear_attn_config").at("kda_layers") = kda;
  }
  test::MiniTensor& tensor(const std::string& name) { return tensors_.at(name); }
  void set_a_log(const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensor(kALog).data.assign(bytes.begin(), bytes.end());
    tensor(kALog).shape = {values.size()};
  }

  test::MiniTensors tensors_;
  nlohmann::json config_;

 private:
  static const test::MiniTensors& original() {
    static const test::MiniTensors tensors = test::read_checkpoint(test::mini_model());
    return tensors;
  }
  static nlohmann::json read_config() {
    std::ifstream file(test::mini_model() / "config.json");
    return nlohmann::json::parse(file);
  }
  std::unique_ptr<test::TempDir> folder_;
};

std::vector<float> logits_of(const LoadedModel& weights, Precision precision) {
  const auto ops = make_ops({precision, 1, ""});
  SequenceState state(weights.config());
  const std::vector<std::uint32_t> ids = {3, 141, 59, 26, 5, 35, 89, 79};
  const SequenceInput input{.ids = ids, .state = &state, .embeddings = {}, .all_logits = true};
  const Tensor logits = Model(weights, *ops).forward({&input, 1});
  return {logits.values().begin(), logits.values().end()};
}

TEST_F(Loader, AcceptsTheCheckpointAndCountsItsBytes) {
  std::uint64_t last = 0, total = 0;
  const LoadedModel loaded = load({.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  }});
  std::uint64_t expected = 0;
  for (const auto& [name, value] : tensors_) {
    if (name.starts_with("language_model.")) expected += value.data.size();
  }
  EXPECT_EQ(total, expected);
  EXPECT_EQ(last, expected);
  EXPECT_GE(loaded.bytes(), expected);
}

TEST_F(Loader, GivesTheSameBitsForEveryFormOfTheExperts) {
  const test::TempDir folder;
  const LoadedModel released = LoadedModel::load(test::mini_model(), {});
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors}) {
    const auto converted = folder / std::to_string(static_cast<int>(layout));
    test::make_nvfp4(test::mini_model(), converted, layout);
    const LoadedModel cast = LoadedModel::load(converted, {});
    EXPECT_EQ(test::resident_expert(cast, 2, 1).w3.format, WeightFormat::kNvfp4);
    for (const Precision precision : {Precision::kBf16, Precision::kF32})
      EXPECT_EQ(logits_of(cast, precision), logits_of(released, precision));
  }
}

TEST_F(Loader, AcceptsEveryFloatTypeForSmallTensorsAndF32ForMatrices) {
  const LoadedModel original = load();
  for (const std::string& name : {kLayer1 + "input_layernorm.weight", kGate}) {
    std::vector<float> values;
    for (const std::uint16_t bits : tensor(name).as<std::uint16_t>()) values.push_back(bf16_value(bits));
    const auto bytes = std::as_bytes(std::span(values));
    tensor(name).data.assign(bytes.begin(), bytes.end());
    tensor(name).dtype = "F32";
  }
  EXPECT_EQ(logits_of(load(), Precision::kBf16), logits_of(original, Precision::kBf16));
}

TEST_F(Loader, AcceptsF16Matrices) {
  // Bits of F16 numbers and what they are: 1, -2, 0.5, the smallest subnormal.
  const std::vector<std::uint16_t> f16 = {0x3C00, 0xC000, 0x3800, 0x0001};
  const std::vector<float> expected = {1, -2, 0.5f, 0x1p-24f};
  std::vector<std::uint16_t> bits(tensor(kGate).as<std::uint16_t>().size());
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = f16[i % f16.size()];
  const auto bytes = std::as_bytes(std::span(bits));
  tensor(kGate).data.assign(bytes.begin(), bytes.end());
  tensor(kGate).dtype = "F16";
  const LoadedModel loaded = load();
  const Matrix& gate = std::get<MoeWeights>(loaded.text().layers[1].ffn).gate;
  for (std::size_t i = 0; i < gate.columns; ++i) EXPECT_EQ(matrix_element(gate, 0, i), expected[i % 4]);
}

TEST_F(Loader, RefusesATensorThatItDoesNotKnow) {
  tensors_[kLayer1 + "self_attn.rotary_emb.inv_freq"] = tensor(kALog);
  EXPECT_ERROR(load(), ErrorCode::kUnsupported, kLayer1 + "self_attn.rotary_emb.inv_freq");
}

TEST_F(Loader, RefusesALayerMoreThanConfigSays) {
  tensors_["language_model.model.layers.6.input_layernorm.weight"] =
      tensor(kLayer1 + "input_layernorm.weight");
  EXPECT_ERROR(load(), ErrorCode::kUnsupported, "layers.6.input_layernorm.weight");
}

TEST_F(Loader, RefusesAnExpertMoreThanConfigSays) {
  for (const char* part : {"w1.weight_packed", "w1.weight_scale"})
    tensors_[kLayer1 + "block_sparse_moe.experts.8." + part] =
        tensor(kLayer1 + "block_sparse_moe.experts.3." + part);
  EXPECT_ERROR(load(), ErrorCode::kUnsupported, "experts.8.w1");
}

TEST_F(Loader, NamesAMissingTensor) {
  for (const std::string& name : {kGate, kExpert + "weight_scale", kExpert + "weight_packed", kALog,
                                  std::string("language_model.lm_head.weight")}) {
    const test::MiniTensor kept = tensor(name);
    tensors_.erase(name);
    const std::string module = name.substr(0, name.rfind('.'));  // packed or plain: it may have been either
    EXPECT_ERROR(load(), ErrorCode::kNotFound, module);
    tensors_[name] = kept;
  }
}

TEST_F(Loader, NamesATensorOfAWrongShape) {
  for (const std::string& name :
       {kGate, kExpert + "weight_packed", kExpert + "weight_scale", kLayer1 + "input_layernorm.weight",
        kLayer1 + "self_attn.q_conv1d.weight"}) {
    const test::MiniTensor kept = tensor(name);
    std::swap(tensor(name).shape.front(), tensor(name).shape.back());
    if (tensor(name).shape == kept.shape) tensor(name).shape = {1, kept.shape.front()};
    EXPECT_ERROR(load(), ErrorCode::kUnsupported, name);
    tensors_[name] = kept;
  }
}

TEST_F(Loader, NamesATensorOfAWrongType) {
  const auto refused = [&](const std::string& name, const std::string& dtype) {
    const test::MiniTensor kept = tensor(name);
    tensor(name).dtype = dtype;
    EXPECT_ERROR(load(), ErrorCode::kUnsupported, name);
    tensors_[name] = kept;
  };
  refused(kGate, "I16");
  refused(kLayer1 + "input_layernorm.weight", "U16");
  refused(kExpert + "weight_scale", "I8");
  refused(kExpert + "weight_packed", "I8");
}

TEST_F(Loader, TakesALogPerHeadWithOrWithoutItsPadding) {
  const std::vector<float> padded = tensor(kALog).as<float>();
  const std::size_t heads = 3;
  ASSERT_GT(padded.size(), heads);
  const auto expected = logits_of(load(), Precision::kF32);
  std::vector<float> values(padded.begin(), padded.begin() + heads);
  for (const std::size_t length : {heads, heads + 1, std::size_t{40}}) {
    values.resize(length);
    set_a_log(values);
    EXPECT_EQ(logits_of(load(), Precision::kF32), expected) << length;
  }
}

TEST_F(Loader, RefusesALogWhosePaddingIsNotZero) {
  std::vector<float> values = tensor(kALog).as<float>();
  values.back() = 0.25f;
  set_a_log(values);
  EXPECT_ERROR(load(), ErrorCode::kUnsupported, kALog);
}

TEST_F(Loader, RefusesALogWithTooFewHeads) {
  const std::vector<float> values = tensor(kALog).as<float>();
  set_a_log({values[0], values[1]});
  EXPECT_ERROR(load(), ErrorCode::kUnsupported, kALog);
}

TEST_F(Loader, RefusesALogOfTwoDimensions) {
  const std::vector<float> values = tensor(kALog).as<float>();
  tensor(kALog).shape = {1, values.size()};
  EXPECT_ERROR(load(), ErrorCode::kUnsupported, kALog);
}

// A scale belongs to 32 columns of one row; rows that do not divide would share one.
TEST_F(Loader, RefusesExpertsWhoseRowsAreNotWholeGroups) {
  text_config()["moe_intermediate_size"] = 48;
  for (auto& [name, value] : tensors_) {
    const bool wide = name.find("shared_experts") != std::string::npos;
    const auto resize = [&](std::size_t dimension, std::uint64_t from, std::uint64_t to) {
      if (value.shape.size() != 2 || value.shape[dimension] != from) return;
      value.data.resize(value.data.size() / from * to);
      value.shape[dimension] = to;
    };
    if (wide) resize(name.ends_with("down_proj.weight") ? 1 : 0, 64, 96);
    if (name.find(".experts.") == std::string::npos) continue;
    if (name.find(".w2.") == std::string::npos) resize(0, 32, 48);
    if (name.ends_with(".w2.weight_packed")) resize(1, 16, 24);
  }
  EXPECT_ERROR(load(), ErrorCode::kUnsupported, "one scale for 32 columns");
}

TEST_F(Loader, RefusesAMissingShard) {
  const test::TempDir folder;
  std::filesystem::copy(test::mini_model(), folder / "copy");
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "copy")) {
    if (entry.path().extension() == ".safetensors") shard = entry.path();
  }
  std::filesystem::remove(shard);
  EXPECT_ERROR(LoadedModel::load(folder / "copy", {}), ErrorCode::kNotFound, shard.filename().string());
}

TEST_F(Loader, RefusesATruncatedShard) {
  const test::TempDir folder;
  std::filesystem::copy(test::mini_model(), folder / "copy");
  for (const auto& entry : std::filesystem::directory_iterator(folder / "copy")) {
    if (entry.path().extension() == ".safetensors")
      std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 1);
  }
  EXPECT_ERROR(LoadedModel::load(folder / "copy", {}), ErrorCode::kCorrupt, ".safetensors");
}

TEST_F(Loader, RefusesBeforeReadingWhatDoesNotFitIntoMemory) {
  LoadedModel::Options options;
  options.memory_limit_bytes = 100'000;
  options.progress = [](std::uint64_t, std::uint64_t) { ADD_FAILURE() << "something was read"; };
  EXPECT_ERROR(load(options), ErrorCode::kNoSpace, "memory");
}

// The file counts layers from 1: 4 and 6 are MLA. Read from 0, MLA would be looked for one layer behind.
TEST_F(Loader, LayerListsReadFromZeroWouldNotLoad) {
  ASSERT_EQ(text_config()["linear_attn_config"]["full_attn_layers"], (std::vector<int>{4, 6}));
  set_layers({5}, {1, 2, 3, 4, 6});
  EXPECT_ERROR(load(), ErrorCode::kNotFound, "layers.3.self_attn.q_proj");
}

// It is MLA although it does not stand in the period of four.
TEST_F(Loader, TheLastLayerTakenForKdaWouldNotLoad) {
  set_layers({4}, {1, 2, 3, 5, 6});
  EXPECT_ERROR(load(), ErrorCode::kNotFound, "layers.5.self_attn.q_proj");
}

TEST_F(Loader, RefusesWhatTheForwardPassDoesNotDo) {
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    const nlohmann::json kept = text_config().at(key);
    text_config()[key] = value;
    EXPECT_ERROR(load(), ErrorCode::kUnsupported, key);
    text_config().erase(key);
    EXPECT_ERROR(load(), ErrorCode::kCorrupt, key);
    text_config()[key] = kept;
  };
  refused("mla_use_nope", false);
  refused("mla_use_output_gate", false);
  refused("num_nextn_predict_layers", 1);
  refused("tie_word_embeddings", true);
  refused("topk_group", 2);
  refused("num_expert_group", 2);
  refused("moe_router_activation_func", "softmax");
  refused("latent_moe_use_norm", false);
  refused("hidden_act", "silu");
}

}  // namespace
}  // namespace perigee
