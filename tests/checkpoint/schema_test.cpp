#include "checkpoint/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/tensor_name.h"
#include "support/paths.h"
#include "support/real_index.h"

namespace perigee {
namespace {

K3Config small_config() {
  K3Config c;
  c.hidden_size = 160, c.num_hidden_layers = 2, c.vocab_size = 50;
  c.num_attention_heads = 3, c.q_lora_rank = 24, c.kv_lora_rank = 16;
  c.qk_nope_head_dim = 8, c.qk_rope_head_dim = 4, c.v_head_dim = 8;
  c.intermediate_size = 192, c.first_k_dense_replace = 1, c.moe_layer_freq = 1;
  c.num_experts = 2, c.num_experts_per_token = 1, c.num_shared_experts = 2;
  c.moe_intermediate_size = 96, c.routed_expert_hidden_size = 64;
  c.mla_use_output_gate = true;
  c.kda_num_heads = 3, c.kda_head_dim = 8, c.short_conv_kernel_size = 4;
  c.is_mla = {false, true};
  c.vision.vt_num_hidden_layers = 1, c.vision.vt_hidden_size = 32, c.vision.vt_intermediate_size = 64;
  c.vision.qkv_hidden_size = 48, c.vision.mm_hidden_size = 32, c.vision.text_hidden_size = 160;
  c.vision.patch_size = 14, c.vision.init_pos_emb_height = 4, c.vision.init_pos_emb_width = 5;
  c.vision.merge_height = 2, c.vision.merge_width = 2;
  return c;
}

std::map<std::string, TensorInfo> by_name(const std::vector<TensorInfo>& tensors) {
  std::map<std::string, TensorInfo> map;
  for (const TensorInfo& tensor : tensors) map[tensor.name] = tensor;
  return map;
}

using Shape = std::vector<std::uint64_t>;

TEST(Schema, GivesADenseKdaLayerInReleasedOrder) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : layer_tensors(small_config(), 0)) names.push_back(tensor.name);
  std::vector<std::string> expected = {"self_attn.q_proj.weight",
                                       "self_attn.k_proj.weight",
                                       "self_attn.v_proj.weight",
                                       "self_attn.q_conv1d.weight",
                                       "self_attn.k_conv1d.weight",
                                       "self_attn.v_conv1d.weight",
                                       "self_attn.b_proj.weight",
                                       "self_attn.o_norm.weight",
                                       "self_attn.o_proj.weight",
                                       "self_attn.A_log",
                                       "self_attn.f_a_proj.weight",
                                       "self_attn.f_b_proj.weight",
                                       "self_attn.dt_bias",
                                       "self_attn.g_proj.weight",
                                       "input_layernorm.weight",
                                       "post_attention_layernorm.weight",
                                       "self_attention_res_proj.weight",
                                       "mlp_res_proj.weight",
                                       "self_attention_res_norm.weight",
                                       "mlp_res_norm.weight",
                                       "mlp.gate_proj.weight",
                                       "mlp.down_proj.weight",
                                       "mlp.up_proj.weight"};
  for (std::string& name : expected) name = "language_model.model.layers.0." + name;
  EXPECT_EQ(names, expected);
}

TEST(Schema, DerivesShapesFromTheConfig) {
  const auto kda = by_name(layer_tensors(small_config(), 0));
  const auto mla = by_name(layer_tensors(small_config(), 1));
  const std::string layer0 = "language_model.model.layers.0.", layer1 = "language_model.model.layers.1.";
  EXPECT_EQ(kda.at(layer0 + "self_attn.q_conv1d.weight").shape, (Shape{24, 1, 4}));
  EXPECT_EQ(kda.at(layer0 + "self_attn.q_conv1d.weight").dtype, DType::kF32);
  EXPECT_EQ(kda.at(layer0 + "self_attn.f_b_proj.weight").shape, (Shape{24, 8}));
  EXPECT_EQ(kda.at(layer0 + "self_attn.f_b_proj.weight").dtype, DType::kBF16);
  EXPECT_EQ(kda.at(layer0 + "self_attn.A_log").shape, (Shape{8}));
  EXPECT_EQ(mla.at(layer1 + "self_attn.kv_b_proj.weight").shape, (Shape{48, 16}));
  EXPECT_EQ(mla.at(layer1 + "self_attn.kv_a_proj_with_mqa.weight").shape, (Shape{20, 160}));
  EXPECT_EQ(mla.at(layer1 + "block_sparse_moe.shared_experts.down_proj.weight").shape, (Shape{160, 192}));
  EXPECT_EQ(mla.at(layer1 + "block_sparse_moe.experts.1.w1.weight_packed").shape, (Shape{96, 32}));
  EXPECT_EQ(mla.at(layer1 + "block_sparse_moe.experts.1.w1.weight_scale").shape, (Shape{96, 2}));
  EXPECT_EQ(mla.at(layer1 + "block_sparse_moe.experts.1.w2.weight_packed").shape, (Shape{64, 48}));
  EXPECT_EQ(mla.at(layer1 + "block_sparse_moe.experts.1.w2.weight_scale").shape, (Shape{64, 3}));
}

TEST(Schema, ALogHasOneEntryPerHeadAndIsPaddedToTheHeadDimension) {
  K3Config config = small_config();
  config.kda_num_heads = 20;
  const auto tensors = by_name(layer_tensors(config, 0));
  EXPECT_EQ(tensors.at("language_model.model.layers.0.self_attn.A_log").shape, (Shape{20}));
}

TEST(Schema, KeepsAnExpertInOneRun) {
  const std::vector<TensorInfo> tensors = layer_tensors(small_config(), 1);
  const std::size_t prefix = std::string("language_model.model.layers.1.").size();
  std::vector<std::string> tail;
  for (std::size_t i = tensors.size() - 6; i < tensors.size(); ++i)
    tail.push_back(tensors[i].name.substr(prefix));
  EXPECT_EQ(
      tail,
      (std::vector<std::string>{
          "block_sparse_moe.experts.1.w1.weight_packed", "block_sparse_moe.experts.1.w1.weight_scale",
          "block_sparse_moe.experts.1.w2.weight_packed", "block_sparse_moe.experts.1.w2.weight_scale",
          "block_sparse_moe.experts.1.w3.weight_packed", "block_sparse_moe.experts.1.w3.weight_scale"}));
}

TEST(Schema, GivesEveryTensorAKnownNameAndAContiguousRange) {
  const std::vector<SchemaShard> shards = released_layout(small_config());
  ASSERT_EQ(shards.size(), 5u);
  EXPECT_EQ(shards[0].file_name, "model-00001-of-000005.safetensors");
  EXPECT_EQ(shards[4].file_name, "model-00005-of-000005.safetensors");
  for (const SchemaShard& shard : shards) {
    std::uint64_t end = 0;
    for (const TensorInfo& tensor : shard.tensors) {
      EXPECT_NE(parse_tensor_name(tensor.name).tensor_class, TensorClass::kUnknown) << tensor.name;
      EXPECT_EQ(tensor.begin, end) << tensor.name;
      end = tensor.end;
    }
  }
}

// The release: what its config.json must lead to is known from its index and its cards.
class ReleasedSchema : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = test::shared_folder() / "k3" / "config.json";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "the release's config.json is not here";
    shards_ = released_layout(load_config(path));
  }
  std::vector<SchemaShard> shards_;
};

TEST_F(ReleasedSchema, HasThePublishedTotals) {
  std::uint64_t tensors = 0, bytes = 0, modules = 0, blocks = 0;
  for (const SchemaShard& shard : shards_) {
    tensors += shard.tensors.size();
    bytes += shard.tensors.back().end;
    for (const TensorInfo& tensor : shard.tensors) {
      const TensorName name = parse_tensor_name(tensor.name);
      if (name.tensor_class != TensorClass::kExpert) continue;
      if (name.part == Part::kWeightPacked) ++modules;
      if (name.part == Part::kWeightScale) blocks += tensor.bytes();
    }
  }
  EXPECT_EQ(shards_.size(), 96u);
  EXPECT_EQ(tensors, 497'220u);
  EXPECT_EQ(bytes, 1'560'860'324'864u);
  EXPECT_EQ(modules, 247'296u);
  EXPECT_EQ(blocks, 85'085'650'944u);
}

TEST_F(ReleasedSchema, HasThePublishedBytesPerShard) {
  EXPECT_EQ(shards_[0].tensors.back().end, 2'341'213'184u);
  EXPECT_EQ(shards_[1].tensors.back().end, 16'990'092'800u);
  EXPECT_EQ(shards_[3].tensors.back().end, 16'566'684'160u);
  EXPECT_EQ(shards_[92].tensors.back().end, 16'566'684'160u);
  EXPECT_EQ(shards_[93].tensors.back().end, 4'697'663'488u);
  EXPECT_EQ(shards_[94].tensors.back().end, 92'289'024u);
  EXPECT_EQ(shards_[95].tensors.back().end, 802'428'928u);
}

// The index lists every shard's tensors from the last to the first.
TEST_F(ReleasedSchema, HasTheNamesFilesAndOrderOfTheReleasedIndex) {
  const auto index = test::read_real_index(test::shared_folder());
  if (!index) GTEST_SKIP() << "the release's index is not here";
  ASSERT_EQ(index->size(), shards_.size());
  for (const SchemaShard& shard : shards_) {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : shard.tensors) names.push_back(tensor.name);
    std::reverse(names.begin(), names.end());
    EXPECT_TRUE(names == index->at(shard.file_name)) << shard.file_name;
  }
}

}  // namespace
}  // namespace perigee
