#include "checkpoint/tensor_name.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "support/paths.h"
#include "support/real_index.h"

namespace perigee {
namespace {

const std::string kLayer5 = "language_model.model.layers.5.";

TEST(TensorName, ReadsAnExpertTensor) {
  const std::string text = kLayer5 + "block_sparse_moe.experts.895.w3.weight_scale";
  const TensorName name = parse_tensor_name(text);
  EXPECT_EQ(name.tensor_class, TensorClass::kExpert);
  EXPECT_EQ(name.layer, 5);
  EXPECT_EQ(name.expert, 895);
  EXPECT_EQ(name.projection, Projection::kW3);
  EXPECT_EQ(name.part, Part::kWeightScale);
  EXPECT_EQ(name.module, kLayer5 + "block_sparse_moe.experts.895.w3");
}

TEST(TensorName, KnowsEveryPartOfAQuantisedExpert) {
  const std::vector<std::pair<std::string, Part>> parts = {
      {"weight", Part::kWeight},
      {"weight_packed", Part::kWeightPacked},
      {"weight_scale", Part::kWeightScale},
      {"weight_scale_2", Part::kWeightScale2},
      {"weight_global_scale", Part::kWeightGlobalScale},
      {"input_scale", Part::kInputScale},
      {"input_global_scale", Part::kInputGlobalScale},
  };
  for (const auto& [suffix, part] : parts) {
    const std::string text = kLayer5 + "block_sparse_moe.experts.0.w1." + suffix;
    const TensorName name = parse_tensor_name(text);
    EXPECT_EQ(name.tensor_class, TensorClass::kExpert) << suffix;
    EXPECT_EQ(name.part, part) << suffix;
    EXPECT_EQ(name.module, kLayer5 + "block_sparse_moe.experts.0.w1") << suffix;
  }
}

TEST(TensorName, SortsLayerTensorsIntoClasses) {
  const std::vector<std::pair<std::string, TensorClass>> expected = {
      {"self_attn.q_proj.weight", TensorClass::kKdaLinear},
      {"self_attn.f_b_proj.weight", TensorClass::kKdaLinear},
      {"self_attn.q_b_proj.weight", TensorClass::kMlaLinear},
      {"self_attn.kv_a_proj_with_mqa.weight", TensorClass::kMlaLinear},
      {"self_attn.k_conv1d.weight", TensorClass::kAttentionOther},
      {"self_attn.A_log", TensorClass::kAttentionOther},
      {"self_attn.dt_bias", TensorClass::kAttentionOther},
      {"self_attn.kv_a_layernorm.weight", TensorClass::kAttentionOther},
      {"block_sparse_moe.gate.weight", TensorClass::kRouter},
      {"block_sparse_moe.gate.e_score_correction_bias", TensorClass::kRouter},
      {"block_sparse_moe.routed_expert_norm.weight", TensorClass::kLatent},
      {"block_sparse_moe.shared_experts.up_proj.weight", TensorClass::kSharedExperts},
      {"mlp.down_proj.weight", TensorClass::kDenseMlp},
      {"mlp_res_norm.weight", TensorClass::kLayerNormResidual},
  };
  for (const auto& [suffix, tensor_class] : expected) {
    const std::string text = kLayer5 + suffix;
    const TensorName name = parse_tensor_name(text);
    EXPECT_EQ(name.tensor_class, tensor_class) << suffix;
    EXPECT_EQ(name.layer, 5) << suffix;
    EXPECT_EQ(name.expert, -1) << suffix;
  }
}

TEST(TensorName, SortsTensorsOutsideLayers) {
  EXPECT_EQ(parse_tensor_name("language_model.lm_head.weight").tensor_class, TensorClass::kEmbedding);
  EXPECT_EQ(parse_tensor_name("language_model.model.norm.weight").tensor_class, TensorClass::kEmbedding);
  EXPECT_EQ(parse_tensor_name("language_model.model.output_attn_res_proj.weight").tensor_class,
            TensorClass::kLayerNormResidual);
  EXPECT_EQ(parse_tensor_name("mm_projector.proj.2.weight").tensor_class, TensorClass::kProjector);
  const TensorName vision = parse_tensor_name("vision_tower.encoder.blocks.26.mlp.fc0.weight");
  EXPECT_EQ(vision.tensor_class, TensorClass::kVision);
  EXPECT_EQ(vision.layer, -1);
  EXPECT_EQ(vision.module, "vision_tower.encoder.blocks.26.mlp.fc0");
}

TEST(TensorName, AModuleIsTheNameWithoutItsPart) {
  const std::string projection = kLayer5 + "self_attn.q_proj.weight_scale";
  EXPECT_EQ(parse_tensor_name(projection).module, kLayer5 + "self_attn.q_proj");
  EXPECT_EQ(parse_tensor_name(projection).part, Part::kWeightScale);
  const std::string parameter = kLayer5 + "self_attn.A_log";
  EXPECT_EQ(parse_tensor_name(parameter).module, parameter);
  EXPECT_EQ(parse_tensor_name(parameter).part, Part::kOther);
}

TEST(TensorName, RefusesNearMisses) {
  const std::vector<std::string> unknown = {
      "",
      "language_model.model.layers.",
      "language_model.model.layers.5",
      "language_model.model.layers..self_attn.q_proj.weight",
      "language_model.model.layers.01.self_attn.q_proj.weight",
      "language_model.model.layers.+1.self_attn.q_proj.weight",
      "language_model.model.layers.-1.self_attn.q_proj.weight",
      "language_model.model.layers. 1.self_attn.q_proj.weight",
      "language_model.model.layers.1x.self_attn.q_proj.weight",
      "language_model.model.layers.2147483648.self_attn.q_proj.weight",
      "language_model.model.layers.99999999999999999999999.self_attn.q_proj.weight",
      "model.layers.1.self_attn.q_proj.weight",
      "xlanguage_model.model.layers.1.self_attn.q_proj.weight",
      kLayer5 + "self_attn.q_proj",
      kLayer5 + "self_attn.q_proj.",
      kLayer5 + "self_attn.q_proj.bias",
      kLayer5 + "self_attn.q_proj.weight ",
      kLayer5 + "self_attn.q_proj.weight.extra",
      kLayer5 + "self_attn.q_proj.weight_packed",
      kLayer5 + "self_attn.a_log",
      kLayer5 + "self_attn.A_log.weight",
      kLayer5 + "mlp.gate_up_proj.weight",
      kLayer5 + "input_layernorm.weight_scale",
      kLayer5 + "block_sparse_moe.experts.w1.weight",
      kLayer5 + "block_sparse_moe.experts.00.w1.weight",
      kLayer5 + "block_sparse_moe.experts.7.w0.weight_packed",
      kLayer5 + "block_sparse_moe.experts.7.w4.weight_packed",
      kLayer5 + "block_sparse_moe.experts.7.w12.weight_packed",
      kLayer5 + "block_sparse_moe.experts.7.w1",
      kLayer5 + "block_sparse_moe.experts.7.w1.",
      kLayer5 + "block_sparse_moe.experts.7.w1.weight_packed2",
      kLayer5 + "block_sparse_moe.experts.7.w1.weight_packed.0",
      kLayer5 + "block_sparse_moe.experts.7.w1.weight_zero_point",
      kLayer5 + "block_sparse_moe.experts.7",
      kLayer5 + "weight",
      "mm_projector.proj.1.weight",
      "mm_projector.linear_1.weight",
      "vision_tower.encoder.blocks.00.wo.weight",
      "vision_tower.encoder.blocks.0.wqkv.bias",
      "vision_tower.patch_embed.pos_emb.time_weight",
      "language_model.lm_head.weight_scale",
      "weight",
      ".weight",
  };
  for (const std::string& name : unknown) {
    EXPECT_EQ(parse_tensor_name(name).tensor_class, TensorClass::kUnknown) << "\"" << name << "\"";
  }
}

TEST(TensorName, IsTheInverseOfExpertModuleName) {
  const std::string text = expert_module_name(92, 7, Projection::kW2) + ".weight_packed";
  EXPECT_EQ(text, "language_model.model.layers.92.block_sparse_moe.experts.7.w2.weight_packed");
  const TensorName name = parse_tensor_name(text);
  EXPECT_EQ(name.layer, 92);
  EXPECT_EQ(name.expert, 7);
  EXPECT_EQ(name.projection, Projection::kW2);
}

TEST(TensorName, TheConfigTellsSharedProjectionsOfMlaFromKda) {
  K3Config config;
  config.is_mla = {false, true};
  const auto class_of = [&](const std::string& text) {
    return class_in_layer(parse_tensor_name(text), config);
  };
  EXPECT_EQ(class_of("language_model.model.layers.0.self_attn.o_proj.weight"), TensorClass::kKdaLinear);
  EXPECT_EQ(class_of("language_model.model.layers.1.self_attn.o_proj.weight"), TensorClass::kMlaLinear);
  EXPECT_EQ(class_of("language_model.model.layers.1.self_attn.g_proj.weight_scale"), TensorClass::kMlaLinear);
  EXPECT_EQ(class_of("language_model.model.layers.1.self_attn.q_proj.weight"), TensorClass::kKdaLinear);
  EXPECT_EQ(class_of("language_model.model.layers.2.self_attn.o_proj.weight"), TensorClass::kKdaLinear);
  EXPECT_EQ(class_of("language_model.lm_head.weight"), TensorClass::kEmbedding);
}

TEST(TensorName, KnowsAllNamesOfTheRelease) {
  const auto index = test::read_real_index(test::shared_folder());
  if (!index) GTEST_SKIP() << "the release's index is not here";
  std::size_t names = 0, experts = 0;
  for (const auto& [file, tensors] : *index) {
    for (const std::string& text : tensors) {
      const TensorName name = parse_tensor_name(text);
      ASSERT_NE(name.tensor_class, TensorClass::kUnknown) << text;
      ++names;
      experts += name.tensor_class == TensorClass::kExpert;
    }
  }
  EXPECT_EQ(names, 497'220u);
  EXPECT_EQ(experts, 2u * 247'296u);
}

}  // namespace
}  // namespace perigee
