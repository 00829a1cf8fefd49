// One layer alone is what the whole model has of it, from one shard or from a folder that lacks the others.
#include "model/load_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "base/hash.h"
#include "checkpoint/index.h"
#include "model/layers.h"
#include "support/expect_error.h"
#include "support/mini_model.h"
#include "support/mini_safetensors.h"
#include "support/resident_expert.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

const K3Config& config() {
  static const K3Config loaded = load_config(test::mini_model() / "config.json");
  return loaded;
}

std::string name_in(std::uint64_t layer, const std::string& rest) {
  return "language_model.model.layers." + std::to_string(layer) + "." + rest;
}

std::string shard_of_layer(std::uint64_t layer) {
  return *load_checkpoint_index(test::mini_model()).shard_of(name_in(layer, "block_sparse_moe.gate.weight"));
}

const LoadedModel& whole_model() {
  static const LoadedModel model = LoadedModel::load(test::mini_model(), {});
  return model;
}

bool same(const Matrix& a, const Matrix& b) {
  const auto bytes_equal = [](const std::byte* one, const std::byte* other, std::size_t count) {
    return (one == nullptr) == (other == nullptr) && (one == nullptr || std::memcmp(one, other, count) == 0);
  };
  if (a.format != b.format || a.rows != b.rows || a.columns != b.columns || a.global_scale != b.global_scale)
    return false;
  const std::size_t all = matrix_bytes(a);
  const std::size_t scales = a.format == WeightFormat::kMxfp4 ? a.rows * a.columns / 32 : 0;
  return bytes_equal(a.values, b.values, all - scales) && bytes_equal(a.scales, b.scales, scales);
}

bool same(Vector a, Vector b) {
  return std::ranges::equal(a, b);
}

void expect_same_trunk(const LayerWeights& found, const LayerWeights& expected) {
  EXPECT_TRUE(same(found.input_layernorm, expected.input_layernorm));
  EXPECT_TRUE(same(found.post_attention_layernorm, expected.post_attention_layernorm));
  EXPECT_TRUE(same(found.self_attention_res_norm, expected.self_attention_res_norm));
  EXPECT_TRUE(same(found.mlp_res_proj, expected.mlp_res_proj));
  ASSERT_EQ(found.attention.index(), expected.attention.index());
  if (const auto* kda = std::get_if<KdaWeights>(&found.attention)) {
    const auto& other = std::get<KdaWeights>(expected.attention);
    EXPECT_TRUE(same(kda->q_proj, other.q_proj) && same(kda->o_proj, other.o_proj));
    EXPECT_TRUE(same(kda->a_log, other.a_log) && same(kda->q_conv1d, other.q_conv1d));
    EXPECT_EQ(kda->a_log.size(), config().kda_num_heads);  // the padding of the release is cut off
  } else {
    const auto& mla = std::get<MlaWeights>(found.attention);
    const auto& other = std::get<MlaWeights>(expected.attention);
    EXPECT_TRUE(same(mla.kv_b_proj, other.kv_b_proj) && same(mla.o_proj, other.o_proj));
    EXPECT_TRUE(same(mla.kv_a_layernorm, other.kv_a_layernorm));
  }
  const auto& moe = std::get<MoeWeights>(found.ffn);
  const auto& other = std::get<MoeWeights>(expected.ffn);
  EXPECT_TRUE(same(moe.gate, other.gate) && same(moe.routed_expert_up_proj, other.routed_expert_up_proj));
  EXPECT_TRUE(same(moe.e_score_correction_bias, other.e_score_correction_bias));
  EXPECT_TRUE(same(moe.shared_experts.down_proj, other.shared_experts.down_proj));
}

void expect_same_experts(const LoadedLayer& loaded, std::uint64_t layer) {
  const std::vector<std::uint32_t> ids = {0, 3, 7};
  const auto lease = loaded.experts().acquire(layer, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto arrived = lease->next();
    ASSERT_TRUE(arrived);
    EXPECT_EQ(arrived->index, i);
    const ExpertWeights expected = test::resident_expert(whole_model(), layer, ids[i]);
    EXPECT_TRUE(same(arrived->weights.w1, expected.w1) && same(arrived->weights.w2, expected.w2) &&
                same(arrived->weights.w3, expected.w3))
        << "layer " << layer << " expert " << ids[i];
  }
  EXPECT_FALSE(lease->next());
}

// A folder with config.json and one shard, or all of the index and that shard.
struct LoneShard {
  explicit LoneShard(std::uint64_t layer, bool with_index = false) : name(shard_of_layer(layer)) {
    fs::copy(test::mini_model() / "config.json", folder / "config.json");
    fs::copy(test::mini_model() / name, folder / name);
    if (with_index) fs::copy(test::mini_model() / kIndexFileName, folder / kIndexFileName);
  }
  fs::path path() const { return folder / name; }
  // Puts a byte into every element of two bytes (or one) that the tensor has.
  void overwrite(const std::string& tensor, const std::string& bytes) const {
    const SafetensorsFile file = SafetensorsFile::open(path());
    std::fstream stream(path(), std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(file.position(*file.header.find(tensor))));
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  test::TempDir folder;
  std::string name;
};

TEST(LoadLayer, IsTheLayerOfTheWholeModelFromAFolderAndFromOneShard) {
  for (const std::uint64_t layer : {1, 3}) {  // KDA and MLA
    const LoneShard shard(layer), folder(layer, true);
    for (const fs::path& path : {test::mini_model(), folder.folder.path(), shard.path()}) {
      const LoadedLayer loaded = LoadedLayer::load(config(), path, layer, {});
      expect_same_trunk(loaded.weights(), whole_model().text().layers[layer]);
      expect_same_experts(loaded, layer);
      EXPECT_EQ(loaded.expert_format(), ExpertFormat::kMxfp4);
    }
  }
}

TEST(LoadLayer, KnowsTheFormatsOfConversions) {
  for (const auto& [layout, format] :
       {std::pair{Layout::kModelOpt, ExpertFormat::kNvfp4ModelOpt},
        std::pair{Layout::kCompressedTensors, ExpertFormat::kNvfp4CompressedTensors}}) {
    const test::TempDir folder;
    test::make_nvfp4(test::mini_model(), folder / "cast", layout);
    const LoadedLayer loaded = LoadedLayer::load(config(), folder / "cast", 2, {});
    EXPECT_EQ(loaded.expert_format(), format);
    const std::array<std::uint32_t, 1> one = {4};
    EXPECT_EQ(loaded.experts().acquire(2, one)->next()->weights.w2.format, WeightFormat::kNvfp4);
  }
}

TEST(LoadLayer, FingerprintsAreThoseOfTheBytesInTheFile) {
  const LoneShard shard(1);
  const test::MiniTensors tensors = test::read_safetensors(shard.path());
  const LoadedLayer loaded = LoadedLayer::load(config(), shard.path(), 1, {});
  std::vector<Fingerprint> prints = loaded.trunk_fingerprints();
  const std::vector<Fingerprint> of_expert = loaded.expert_fingerprints(5);
  EXPECT_EQ(of_expert.size(), 6u);  // three matrices, values and scales
  prints.insert(prints.end(), of_expert.begin(), of_expert.end());
  for (const Fingerprint& print : prints) {
    const test::MiniTensor& tensor = tensors.at(print.name);
    EXPECT_EQ(print.hash, xxh3_64(tensor.data)) << print.name;
    EXPECT_EQ(print.shape, tensor.shape) << print.name;
  }
  const auto trunk_tensors = std::ranges::count_if(tensors, [](const auto& named) {
    return named.first.starts_with(name_in(1, "")) && named.first.find(".experts.") == std::string::npos;
  });
  EXPECT_EQ(loaded.trunk_fingerprints().size(), static_cast<std::size_t>(trunk_tensors));
}

TEST(LoadLayer, CountsWhatItHolds) {
  const LoneShard shard(1);
  std::uint64_t trunk = 0, expert = 0;
  for (const auto& [name, tensor] : test::read_safetensors(shard.path())) {
    if (!name.starts_with(name_in(1, ""))) continue;
    if (name.find(".experts.") == std::string::npos) trunk += tensor.data.size();
    if (name.starts_with(name_in(1, "block_sparse_moe.experts.2."))) expert += tensor.data.size();
  }
  std::uint64_t last = 0, total = 0;
  LoadedLayer::Options options;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  const LoadedLayer loaded = LoadedLayer::load(config(), shard.path(), 1, options);
  EXPECT_EQ(total, trunk);
  EXPECT_EQ(last, trunk);
  EXPECT_GE(loaded.trunk_bytes(), trunk);
  EXPECT_EQ(loaded.expert_bytes(), expert);
}

TEST(LoadLayer, RefusesMoreMemoryThanItMayUse) {
  EXPECT_ERROR(
      LoadedLayer::load(config(), test::mini_model(), 1, {.progress = {}, .memory_limit_bytes = 1000}),
      ErrorCode::kNoSpace, "available");
}

TEST(LoadLayer, ServesNoOtherLayer) {
  const LoadedLayer loaded = LoadedLayer::load(config(), test::mini_model(), 1, {});
  const std::array<std::uint32_t, 1> one = {0};
  EXPECT_ERROR(loaded.experts().acquire(2, one), ErrorCode::kInternal, "layer 2");
}

TEST(LoadLayer, NamesWhatIsNotANumberInTheTrunkAtOnceAndInAnExpertWhenItIsRead) {
  const std::string norm = name_in(1, "input_layernorm.weight");
  const LoneShard trunk(1);
  trunk.overwrite(norm, std::string("\x00\x00\xC0\x7F", 4));  // bf16: 0, NaN
  EXPECT_ERROR(LoadedLayer::load(config(), trunk.path(), 1, {}), ErrorCode::kCorrupt,
               "input_layernorm.weight row 0 column 1");

  const LoneShard experts(1);
  experts.overwrite(name_in(1, "block_sparse_moe.experts.6.w3.weight_scale"), "\xFF");
  const LoadedLayer loaded = LoadedLayer::load(config(), experts.path(), 1, {});
  const std::array<std::uint32_t, 2> wanted = {5, 6};
  const auto lease = loaded.experts().acquire(1, wanted);
  EXPECT_TRUE(lease->next());
  EXPECT_ERROR(lease->next(), ErrorCode::kCorrupt, "experts.6.w3.weight_scale row 0 column 0");
}

TEST(LoadLayer, RefusesATensorOfAnotherShapeAndOneThatIsMissing) {
  K3Config wider = config();
  wider.moe_intermediate_size *= 2;
  EXPECT_ERROR(LoadedLayer::load(wider, test::mini_model(), 1, {}), ErrorCode::kUnsupported, "layers.1.");
  K3Config more = config();
  more.num_experts += 1;
  EXPECT_ERROR(LoadedLayer::load(more, test::mini_model(), 1, {}), ErrorCode::kUnsupported, "layers.1.");
}

TEST(LoadLayer, NeedsTheShardsOfItsOwnLayerOnly) {
  const LoneShard folder(1, true);
  EXPECT_NO_THROW(LoadedLayer::load(config(), folder.folder.path(), 1, {}));
  EXPECT_ERROR(LoadedLayer::load(config(), folder.folder.path(), 4, {}), ErrorCode::kNotFound,
               shard_of_layer(4));
}

TEST(ChooseLayer, TakesTheFirstWithExpertsOrTheOneThatIsWanted) {
  EXPECT_EQ(choose_moe_layer(config(), test::mini_model(), std::nullopt), 1u);
  EXPECT_EQ(choose_moe_layer(config(), test::mini_model(), 4), 4u);
  const LoneShard shard(3);
  EXPECT_EQ(choose_moe_layer(config(), shard.path(), std::nullopt), 3u);
  EXPECT_ERROR(choose_moe_layer(config(), shard.path(), 2), ErrorCode::kNotFound, "layer 2");
  EXPECT_ERROR(choose_moe_layer(config(), test::mini_model(), 0), ErrorCode::kNotFound, "layer 0");
}

TEST(ChooseLayer, RefusesALayerThatTheConfigDescribesOtherwise) {
  const LoneShard shard(3);
  K3Config shorter = config();
  shorter.num_hidden_layers = 3;
  EXPECT_ERROR(choose_moe_layer(shorter, shard.path(), std::nullopt), ErrorCode::kUnsupported, "3 layers");
  K3Config denser = config();
  denser.first_k_dense_replace = 4;
  EXPECT_ERROR(choose_moe_layer(denser, shard.path(), std::nullopt), ErrorCode::kUnsupported, "dense");
}

}  // namespace
}  // namespace perigee
