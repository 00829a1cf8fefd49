#include "checkpoint/overview.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/index.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

const fs::path kSource = test::data_folder() / "convert" / "source";
const char* const kShard2 = "model-00002-of-000003.safetensors";

std::vector<std::string> texts(const CheckpointOverview& overview, FindingKind kind) {
  std::vector<std::string> found;
  for (const Finding& finding : overview.findings) {
    if (finding.kind == kind) found.push_back(finding.text);
  }
  return found;
}

std::size_t faults(const CheckpointOverview& overview) {
  std::size_t count = 0;
  for (const Finding& finding : overview.findings) count += finding.harmless ? 0 : 1;
  return count;
}

TEST(Overview, CountsTheGoldenSource) {
  const CheckpointOverview overview = survey_checkpoint(kSource);
  EXPECT_EQ(overview.inventory.tensors, 162u);
  EXPECT_EQ(overview.indexed_tensors, 162u);
  EXPECT_EQ(overview.inventory.experts, 12u);
  EXPECT_EQ(overview.inventory.expert_modules, 36u);
  EXPECT_EQ(overview.inventory.mxfp4_blocks, 6912u);
  EXPECT_EQ(overview.inventory.bytes, *overview.total_size);
  EXPECT_EQ(overview.shards_present, 3u);
  EXPECT_EQ(overview.kda_layers, 2u);
  EXPECT_EQ(overview.mla_layers, 1u);
  EXPECT_EQ(overview.dense_layers, 1u);
  EXPECT_EQ(overview.moe_layers, 2u);
  EXPECT_EQ(overview.expert_format, ExpertFormat::kMxfp4);
  EXPECT_EQ(overview.manifest_format, ExpertFormat::kMxfp4);
  EXPECT_EQ(overview.classes.at(TensorClass::kExpert).total.tensors, 72u);
  std::uint64_t bytes = 0;
  for (const auto& [tensor_class, summary] : overview.classes) bytes += summary.total.bytes;
  EXPECT_EQ(bytes, overview.inventory.bytes);
}

// A copy of the golden source that a test may damage.
class Copy {
 public:
  Copy() { fs::copy(kSource, folder_ / "ckpt"); }
  fs::path path() const { return folder_ / "ckpt"; }
  fs::path operator/(const char* name) const { return path() / name; }

  void edit_json(const char* name, const std::function<void(nlohmann::ordered_json&)>& edit) const {
    std::ifstream in(path() / name);
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(in);
    in.close();
    edit(json);
    std::ofstream(path() / name) << json.dump(2);
  }

  // Same length, so that the header stays what it is otherwise.
  void replace_in_shard(const std::string& from, const std::string& to) const {
    std::ifstream in(path() / kShard2, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    in.close();
    ASSERT_EQ(from.size(), to.size());
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, from.size(), to);
    std::ofstream(path() / kShard2, std::ios::binary) << bytes;
  }

 private:
  test::TempDir folder_;
};

// The golden source keeps the released vision_config but has a smaller vision tower.
TEST(Overview, FindsNothingWrongOnceTheConfigIsRight) {
  EXPECT_GT(faults(survey_checkpoint(kSource)), 0u);
  const Copy copy;
  copy.edit_json("config.json", [](nlohmann::ordered_json& config) {
    config["vision_config"].update({{"vt_num_hidden_layers", 1},
                                    {"vt_hidden_size", 16},
                                    {"vt_intermediate_size", 64},
                                    {"qkv_hidden_size", 24},
                                    {"mm_hidden_size", 16},
                                    {"text_hidden_size", 160},
                                    {"patch_size", 2},
                                    {"init_pos_emb_height", 4},
                                    {"init_pos_emb_width", 4}});
  });
  const CheckpointOverview overview = survey_checkpoint(copy.path());
  for (const Finding& finding : overview.findings) EXPECT_TRUE(finding.harmless) << finding.text;
}

TEST(Overview, GoesOnWithoutAShard) {
  const Copy copy;
  fs::remove(copy / kShard2);
  const CheckpointOverview overview = survey_checkpoint(copy.path());
  EXPECT_THAT(texts(overview, FindingKind::kMissingShard), ::testing::ElementsAre(HasSubstr(kShard2)));
  EXPECT_EQ(overview.shards_present, 2u);
  EXPECT_EQ(overview.inventory.experts, 6u);
}

TEST(Overview, GoesOnAfterAnUnreadableShard) {
  const Copy copy;
  std::ofstream(copy / kShard2, std::ios::binary) << "version https://git-lfs.github.com/spec/v1\n";
  const CheckpointOverview overview = survey_checkpoint(copy.path());
  EXPECT_THAT(texts(overview, FindingKind::kUnreadable), ::testing::ElementsAre(HasSubstr(kShard2)));
}

TEST(Overview, NamesStrayFiles) {
  const Copy copy;
  fs::copy_file(copy / kShard2, copy / "old.safetensors");
  EXPECT_THAT(texts(survey_checkpoint(copy.path()), FindingKind::kStrayFile),
              ::testing::ElementsAre(HasSubstr("old.safetensors")));
}

TEST(Overview, NamesTensorsInWhichIndexAndShardDisagree) {
  const Copy copy;
  copy.edit_json(kIndexFileName, [](nlohmann::ordered_json& index) {
    index["weight_map"].erase("language_model.model.layers.1.input_layernorm.weight");
    index["weight_map"]["language_model.model.layers.1.self_attn.A_log"] =
        "model-00001-of-000003.safetensors";
  });
  const std::vector<std::string> found = texts(survey_checkpoint(copy.path()), FindingKind::kIndex);
  EXPECT_THAT(found, Contains(HasSubstr("input_layernorm.weight, which the index does not name")));
  EXPECT_THAT(found, Contains(HasSubstr("A_log, which the index places in model-00001")));
  EXPECT_THAT(found, Contains(HasSubstr("A_log in model-00001-of-000003.safetensors, which lacks it")));
}

TEST(Overview, ComparesTotalSize) {
  const Copy copy;
  copy.edit_json(kIndexFileName,
                 [](nlohmann::ordered_json& index) { index["metadata"]["total_size"] = 12345; });
  EXPECT_THAT(texts(survey_checkpoint(copy.path()), FindingKind::kIndex), Contains(HasSubstr("12345")));
}

TEST(Overview, ListsUnknownNames) {
  const Copy copy;
  copy.replace_in_shard("layers.1.input_layernorm.weight", "layers.1.input_layermess.weight");
  EXPECT_THAT(texts(survey_checkpoint(copy.path()), FindingKind::kUnknownName),
              ::testing::ElementsAre(HasSubstr("input_layermess")));
}

TEST(Overview, ComparesShapesWithTheConfig) {
  const Copy copy;
  copy.edit_json("config.json",
                 [](nlohmann::ordered_json& config) { config["text_config"]["hidden_size"] = 320; });
  const std::vector<std::string> found = texts(survey_checkpoint(copy.path()), FindingKind::kShape);
  EXPECT_THAT(found,
              Contains(HasSubstr("input_layernorm.weight is BF16 [160]; config.json asks for BF16 [320]")));
}

TEST(Overview, SaysWhenTheConfigAsksForMore) {
  const Copy copy;
  copy.edit_json("config.json",
                 [](nlohmann::ordered_json& config) { config["text_config"]["num_experts"] = 7; });
  EXPECT_THAT(texts(survey_checkpoint(copy.path()), FindingKind::kAbsent),
              Contains(HasSubstr("experts.6.w1")));
}

TEST(Overview, GoesOnWithoutAConfig) {
  const Copy copy;
  fs::remove(copy / "config.json");
  const CheckpointOverview overview = survey_checkpoint(copy.path());
  EXPECT_EQ(texts(overview, FindingKind::kConfig).size(), 1u);
  EXPECT_EQ(overview.inventory.tensors, 162u);
}

TEST(Overview, SaysWhenTheManifestClaimsSomethingElse) {
  const Copy copy;
  copy.edit_json("config.json",
                 [](nlohmann::ordered_json& config) { config["text_config"].erase("quantization_config"); });
  const CheckpointOverview overview = survey_checkpoint(copy.path());
  EXPECT_THAT(texts(overview, FindingKind::kManifest),
              ::testing::ElementsAre(HasSubstr("the manifest claims none, the tensors are mxfp4")));
}

// The release pads A_log with zeros; the golden source has 8 entries for 6 heads.
TEST(Overview, TellsPaddingOfALogFromValues) {
  const CheckpointOverview fine = survey_checkpoint(kSource);
  EXPECT_THAT(texts(fine, FindingKind::kALog), ::testing::ElementsAre(HasSubstr("exactly zero")));

  const Copy copy;
  std::fstream file(copy / kShard2, std::ios::binary | std::ios::in | std::ios::out);
  std::uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const std::uint64_t begin_of_a_log = 24;  // by the golden header
  file.seekp(static_cast<std::streamoff>(8 + header + begin_of_a_log + 7 * 4));
  const float one = 1;
  file.write(reinterpret_cast<const char*>(&one), sizeof one);
  file.close();
  EXPECT_THAT(
      texts(survey_checkpoint(copy.path()), FindingKind::kALog),
      Contains(HasSubstr("layers.1.self_attn.A_log has 8 entries for 6 heads and the rest is not zero")));
}

TEST(Overview, NamesExpertsThatAreSplitOverShards) {
  const Copy copy;
  copy.edit_json(kIndexFileName, [](nlohmann::ordered_json& index) {
    index["weight_map"]["language_model.model.layers.1.block_sparse_moe.experts.2.w3.weight_scale"] =
        "model-00003-of-000003.safetensors";
  });
  EXPECT_THAT(texts(survey_checkpoint(copy.path()), FindingKind::kSplitPair),
              ::testing::ElementsAre(HasSubstr("layer 1 expert 2")));
}

}  // namespace
}  // namespace perigee
