#include "convert/size_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "checkpoint/schema.h"
#include "support/mini_safetensors.h"
#include "support/paths.h"
#include "support/real_index.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = test::data_folder() / "convert";

// The released sizes, as published (docs/formats.md).
K3Config released_config() {
  K3Config c;
  c.hidden_size = 7168, c.num_hidden_layers = 93, c.vocab_size = 163840;
  c.num_attention_heads = 96, c.q_lora_rank = 1536, c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 128, c.qk_rope_head_dim = 64, c.v_head_dim = 128;
  c.intermediate_size = 33792, c.first_k_dense_replace = 1, c.moe_layer_freq = 1;
  c.num_experts = 896, c.num_experts_per_token = 16, c.num_shared_experts = 2;
  c.moe_intermediate_size = 3072, c.routed_expert_hidden_size = 3584;
  c.attn_res_block_size = 12, c.max_position_embeddings = 1048576;
  c.mla_use_nope = true, c.mla_use_output_gate = true, c.moe_renormalize = true;
  c.kda_num_heads = 96, c.kda_head_dim = 128, c.short_conv_kernel_size = 4;
  c.is_mla.assign(93, false);
  for (std::size_t layer = 3; layer < 92; layer += 4) c.is_mla[layer] = true;
  c.is_mla[92] = true;
  c.vision.vt_num_hidden_layers = 27, c.vision.vt_hidden_size = 1024, c.vision.vt_intermediate_size = 4096;
  c.vision.vt_num_attention_heads = 12, c.vision.qkv_hidden_size = 1536, c.vision.mm_hidden_size = 1024;
  c.vision.text_hidden_size = 7168, c.vision.patch_size = 14, c.vision.init_pos_emb_height = 64;
  c.vision.init_pos_emb_width = 64, c.vision.init_pos_emb_time = 4;
  c.vision.merge_height = 2, c.vision.merge_width = 2;
  return c;
}

const LayoutPlan& target(const SizePlan& plan, Layout layout, Activations activations) {
  const auto found = std::ranges::find_if(plan.targets, [&](const LayoutPlan& candidate) {
    return candidate.layout == layout && candidate.activations == activations;
  });
  if (found == plan.targets.end()) throw std::runtime_error("no such target in the plan");
  return *found;
}

std::uint64_t shard_bytes(const LayoutPlan& plan, const std::string& name) {
  for (const FilePlan& file : plan.files) {
    if (file.name == name) return file.data_bytes;
  }
  throw std::runtime_error("no file " + name);
}

// One plan for all tests of the released sizes: it takes a second.
const SizePlan& released_plan() {
  static const SizePlan kPlan = plan_sizes(released_config(), nullptr);
  return kPlan;
}

TEST(SizePlan, CountsTheRelease) {
  const SizePlan& plan = released_plan();
  EXPECT_EQ(plan.source.layout, Layout::kMxfp4);
  EXPECT_EQ(plan.source.tensor_bytes, 1'560'860'324'864u);
  EXPECT_EQ(plan.source.tensors, 497'220u);
  EXPECT_EQ(plan.source.files.size(), 96u);
  EXPECT_EQ(plan.experts, 82'432u);
  EXPECT_EQ(plan.expert_modules, 247'296u);
  EXPECT_EQ(plan.mxfp4_blocks, 85'085'650'944u);
}

TEST(SizePlan, CountsEveryTargetOfTheReleaseToTheByte) {
  const SizePlan& plan = released_plan();
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors}) {
    EXPECT_EQ(target(plan, layout, Activations::kNone).tensor_bytes, 1'645'946'964'992u);
    EXPECT_EQ(target(plan, layout, Activations::kNone).tensors, 744'516u);
    EXPECT_EQ(target(plan, layout, Activations::kPlaceholder).tensor_bytes, 1'645'947'954'176u);
    EXPECT_EQ(target(plan, layout, Activations::kPlaceholder).tensors, 991'812u);
  }
  const LayoutPlan& mixed = target(plan, Layout::kNvidiaMixed, Activations::kPlaceholder);
  EXPECT_EQ(mixed.tensor_bytes, 1'609'777'087'808u);
  EXPECT_EQ(mixed.tensors, 992'508u);
}

TEST(SizePlan, KnowsTheShardsOfTheRelease) {
  const SizePlan& plan = released_plan();
  const LayoutPlan& weight_only = target(plan, Layout::kModelOpt, Activations::kNone);
  const LayoutPlan& with_input = target(plan, Layout::kModelOpt, Activations::kPlaceholder);
  EXPECT_EQ(shard_bytes(plan.source, "model-00001-of-000096.safetensors"), 2'341'213'184u);
  const std::string kda = "model-00003-of-000096.safetensors", mla = "model-00004-of-000096.safetensors";
  EXPECT_EQ(shard_bytes(plan.source, kda), 16'990'092'800u);
  EXPECT_EQ(shard_bytes(weight_only, kda), 17'914'947'584u);
  EXPECT_EQ(shard_bytes(with_input, kda), 17'914'958'336u);
  EXPECT_EQ(shard_bytes(plan.source, mla), 16'566'684'160u);
  EXPECT_EQ(shard_bytes(weight_only, mla), 17'491'538'944u);
  EXPECT_EQ(shard_bytes(with_input, mla), 17'491'549'696u);
  EXPECT_EQ(shard_bytes(weight_only, "model-00096-of-000096.safetensors"), 802'428'928u);
}

// A published compressed-tensors conversion of layer 48 is a file of 17,916,197,160 bytes (docs/formats.md);
// header padding and metadata may differ by a few bytes.
TEST(SizePlan, ReproducesAPublishedFileSize) {
  const LayoutPlan& plan = target(released_plan(), Layout::kCompressedTensors, Activations::kNone);
  const auto file = std::ranges::find(plan.files, "model-00049-of-000096.safetensors", &FilePlan::name);
  ASSERT_NE(file, plan.files.end());
  EXPECT_NEAR(static_cast<double>(file->file_bytes()), 17'916'197'160.0, 128.0);
}

TEST(SizePlan, SaysWhatRunningTouches) {
  EXPECT_EQ(released_plan().expert_bytes, 1'446'456'066'048u);
  EXPECT_EQ(released_plan().expert_bytes_per_token, 16ull * 92 * 17'547'264);
  EXPECT_EQ(released_plan().trunk_bytes, 113'509'540'864u);
}

TEST(SizePlan, AgreesWithTheRealConfigAndIndexWhereTheyAreAtHand) {
  const fs::path shared = test::shared_folder();
  const auto names = test::read_real_index(shared);
  if (!names) GTEST_SKIP() << "the released index is not at hand";
  CheckpointIndex index;
  for (const auto& [file, tensors] : *names) {
    for (const std::string& tensor : tensors) {
      index.entries.push_back({tensor, static_cast<std::uint32_t>(index.shards.size())});
    }
    index.shards.push_back(file);
  }
  index.total_size = 1'560'860'324'864u;
  index.rebuild_lookup();
  const SizePlan plan = plan_sizes(load_config(shared / "k3" / "config.json"), &index, {});
  EXPECT_THAT(plan.disagreements, ::testing::IsEmpty());
  EXPECT_EQ(plan.source.tensor_bytes, 1'560'860'324'864u);
  EXPECT_EQ(plan.source.header_bytes, released_plan().source.header_bytes);
  EXPECT_EQ(plan.source.total_bytes(), released_plan().source.total_bytes());
}

nlohmann::json expected_json() {
  std::ifstream file(kGoldens / "expected.json");
  return nlohmann::json::parse(file);
}

// The golden source keeps the released vision_config but has a smaller vision tower.
K3Config golden_config() {
  K3Config config = load_config(kGoldens / "source" / "config.json");
  config.vision.vt_num_hidden_layers = 1, config.vision.vt_hidden_size = 16,
  config.vision.vt_intermediate_size = 64;
  config.vision.qkv_hidden_size = 24, config.vision.mm_hidden_size = 16, config.vision.text_hidden_size = 160;
  config.vision.patch_size = 2, config.vision.init_pos_emb_height = 4, config.vision.init_pos_emb_width = 4;
  return config;
}

// A_log has head_dim entries in the release and so in the layout, but 8 instead of 16 in the golden source's
// two KDA layers; no key of config.json says so.
constexpr std::uint64_t kALogSurplus = 2 * 8 * 4;

TEST(SizePlan, FollowsTheIndexOfTheGoldenSource) {
  const CheckpointIndex index = load_index(kGoldens / "source" / kIndexFileName);
  const SizePlan plan = plan_sizes(golden_config(), &index);
  const nlohmann::json golden = expected_json()["checkpoints"]["source"];
  EXPECT_EQ(plan.source.files.size(), 3u);
  EXPECT_EQ(plan.source.tensors, index.entries.size());
  EXPECT_EQ(plan.mxfp4_blocks, golden["counts"]["blocks32"]);
  EXPECT_EQ(plan.expert_modules, golden["counts"]["modules"]);
  const LayoutPlan& modelopt = target(plan, Layout::kModelOpt, Activations::kPlaceholder);
  EXPECT_EQ(modelopt.tensors, golden["modelopt_tensors"]);
  EXPECT_EQ(modelopt.tensor_bytes, golden["modelopt_total_size"].get<std::uint64_t>() + kALogSurplus);
  const LayoutPlan& compressed = target(plan, Layout::kCompressedTensors, Activations::kNone);
  EXPECT_EQ(compressed.tensors, golden["ct_tensors"]);
  EXPECT_EQ(compressed.tensor_bytes, golden["ct_total_size"].get<std::uint64_t>() + kALogSurplus);
  EXPECT_EQ(target(plan, Layout::kNvidiaMixed, Activations::kPlaceholder).tensor_bytes,
            golden["mixed_total_size"].get<std::uint64_t>() + kALogSurplus);
}

TEST(SizePlan, PlansAnNvfp4CheckpointFromItsOwnIndex) {
  const CheckpointIndex index = load_index(kGoldens / "cast_modelopt" / kIndexFileName);
  const SizePlan plan = plan_sizes(golden_config(), &index);
  EXPECT_EQ(plan.source.layout, Layout::kModelOpt);
  EXPECT_EQ(plan.source.activations, Activations::kPlaceholder);
  EXPECT_EQ(plan.source.tensor_bytes, *index.total_size + kALogSurplus);
  const nlohmann::json golden = expected_json()["checkpoints"]["source"];
  EXPECT_EQ(target(plan, Layout::kCompressedTensors, Activations::kNone).tensor_bytes,
            golden["ct_total_size"].get<std::uint64_t>() + kALogSurplus);
}

TEST(SizePlan, SaysWhichTargetsAnFp8CheckpointCannotBecome) {
  const CheckpointIndex index = load_index(kGoldens / "mixed_modelopt" / kIndexFileName);
  const SizePlan plan = plan_sizes(golden_config(), &index);
  EXPECT_EQ(plan.source.layout, Layout::kNvidiaMixed);
  EXPECT_EQ(plan.source.tensor_bytes, *index.total_size + kALogSurplus);
  EXPECT_THAT(target(plan, Layout::kCompressedTensors, Activations::kNone).impossible,
              ::testing::HasSubstr("FP8"));
}

TEST(SizePlan, ReportsNamesThatTheConfigDoesNotKnowAndAWrongTotal) {
  CheckpointIndex index = load_index(kGoldens / "source" / kIndexFileName);
  index.entries.push_back({"language_model.model.layers.7.mystery.weight", 0});
  index.total_size = *index.total_size + 1;
  index.rebuild_lookup();
  const SizePlan plan = plan_sizes(golden_config(), &index);
  EXPECT_THAT(plan.disagreements, ::testing::Contains(::testing::HasSubstr("mystery")));
  EXPECT_THAT(plan.disagreements, ::testing::Contains(::testing::HasSubstr("total_size")));
}

}  // namespace
}  // namespace perigee
