#include "synth/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout_check.h"
#include "checkpoint/schema.h"
#include "support/paths.h"
#include "support/temp_dir.h"
#include "synth/checkpoint_reader.h"
#include "synth/tensor_values.h"

namespace perigee {
namespace {

using test::make_tensors;
using test::read_files;
using test::TempDir;

template <typename Function>
ErrorCode code_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kInternal;
}

std::map<std::string, std::string> files_of(const SynthOptions& options) {
  const TempDir folder;
  make_checkpoint(folder.path(), options);
  return read_files(folder.path());
}

TEST(Synth, SameSeedGivesTheSameBytesWhateverTheJobs) {
  SynthOptions one, many;
  one.jobs = 1, many.jobs = 5;
  many.io = IoBackend::kThreads;
  EXPECT_EQ(files_of(one), files_of(many));
}

TEST(Synth, AnotherSeedChangesEveryTensor) {
  SynthOptions options;
  const auto first = make_tensors(options);
  options.seed = 2;
  const auto second = make_tensors(options);
  ASSERT_EQ(first.size(), second.size());
  for (const auto& [name, bytes] : first) EXPECT_NE(bytes, second.at(name)) << name;
}

TEST(Synth, ATensorDoesNotDependOnWhatElseIsWritten) {
  SynthOptions options;
  const auto whole = make_tensors(options);
  options.shards = {3};
  options.shuffle = true;
  const auto part = make_tensors(options);
  EXPECT_LT(part.size(), whole.size());
  for (const auto& [name, bytes] : part) EXPECT_EQ(bytes, whole.at(name)) << name;
}

TEST(Synth, AnyRangeOfATensorCanBeMadeAlone) {
  const K3Config config = synth_config(SynthPreset::kTiny);
  const synth::TensorValues values(config, {});
  for (const SchemaShard& shard : released_layout(config)) {
    for (const TensorInfo& tensor : shard.tensors) {
      std::vector<std::byte> whole(tensor.bytes());
      values.fill(tensor, 0, whole);
      const std::uint64_t begin = tensor.bytes() / 3 + 1;
      std::vector<std::byte> part(tensor.bytes() / 2);
      values.fill(tensor, begin, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)))
          << tensor.name;
    }
  }
}

TEST(Synth, TinyIsSmallAndComplete) {
  const TempDir folder;
  const SynthSummary summary = make_checkpoint(folder.path(), {});
  EXPECT_EQ(summary.shards, 7u);
  EXPECT_EQ(summary.experts, 24u);
  std::uint64_t bytes = 0;
  std::set<std::string> names;
  for (const auto& [name, text] : read_files(folder.path())) {
    bytes += text.size();
    if (!name.ends_with(".safetensors")) names.insert(name);
  }
  EXPECT_LT(bytes, 3'000'000u);
  EXPECT_EQ(names, (std::set<std::string>{"LICENSE", "README.md", "config.json", "configuration_kimi_k3.py",
                                          "generation_config.json", "model.safetensors.index.json",
                                          "modeling_kimi_k3.py", "tiktoken.model"}));
}

TEST(Synth, PassesTheStrictReaders) {
  const TempDir folder;
  const SynthSummary summary = make_checkpoint(folder.path(), {});
  const K3Config config = load_config(folder / "config.json");
  const CheckpointIndex index = load_index(folder / kIndexFileName);
  const LayoutCheck layout(config);
  Inventory inventory;
  std::uint64_t file_bytes = 0;
  for (const std::string& shard : index.shards) {
    const ShardHeader header = read_shard_header(folder.path(), index, shard);
    file_bytes += header.file_bytes;
    for (const TensorInfo& tensor : header.header.tensors) {
      inventory.add(tensor);
      EXPECT_EQ(layout.fault_of(tensor), std::nullopt);
    }
  }
  EXPECT_TRUE(layout.absent_from(index).empty());
  EXPECT_TRUE(inventory.unknown.empty());
  EXPECT_EQ(inventory.tensors, summary.tensors);
  EXPECT_EQ(inventory.bytes, summary.tensor_bytes);
  EXPECT_EQ(inventory.experts, summary.experts);
  EXPECT_EQ(index.total_size, summary.tensor_bytes);
  EXPECT_EQ(file_bytes, summary.file_bytes);
  EXPECT_EQ(read_manifest_format(folder.path()), ExpertFormat::kMxfp4);
}

TEST(Synth, TheConfigReadsBackAsItWasMeant) {
  const TempDir folder;
  make_checkpoint(folder.path(), {});
  const auto json = nlohmann::json::parse(read_small_file(folder / "config.json", 1 << 20));
  EXPECT_FALSE(json.contains("quantization_config"));
  EXPECT_EQ(json.at("text_config").at("quantization_config").at("format"), "mxfp4-pack-quantized");
  EXPECT_EQ(json.at("text_config").at("linear_attn_config").at("full_attn_layers"), nlohmann::json({4}));
  EXPECT_EQ(json.at("text_config").at("linear_attn_config").at("kda_layers"), nlohmann::json({1, 2, 3}));
}

TEST(Synth, ThePresetK3HasTheSizesOfTheRelease) {
  const auto path = test::shared_folder() / "k3" / "config.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the release's config.json is not here";
  const TempDir folder;
  SynthOptions options;
  options.preset = SynthPreset::kK3;
  options.ghost = true;
  options.shards = {95};
  make_checkpoint(folder.path(), options);
  // Every key that we write has the released value.
  const auto ours = nlohmann::json::parse(read_small_file(folder / "config.json", 1 << 20)).flatten();
  const auto theirs = nlohmann::json::parse(read_small_file(path, 1 << 20)).flatten();
  for (const auto& [key, value] : ours.items()) {
    ASSERT_TRUE(theirs.contains(key)) << key;
    EXPECT_EQ(value, theirs.at(key)) << key;
  }
}

TEST(Synth, GhostsOfK3HaveThePublishedTotals) {
  const TempDir folder;
  SynthOptions options;
  options.preset = SynthPreset::kK3;
  options.ghost = true;
  options.full_index = true;
  options.shards = {1, 2, 93, 94, 95, 96};
  const SynthSummary summary = make_checkpoint(folder.path(), options);
  EXPECT_EQ(summary.tensor_bytes,
            2'341'213'184u + 16'990'092'800u + 16'566'684'160u + 4'697'663'488u + 92'289'024u + 802'428'928u);
  EXPECT_EQ(summary.tensors, 23u + 5'404u + 5'398u + 5u + 3u + 165u);
  const CheckpointIndex index = load_index(folder / kIndexFileName);
  EXPECT_EQ(index.entries.size(), 497'220u);
  EXPECT_EQ(index.total_size, 1'560'860'324'864u);
  const ShardHeader shard = read_shard_header(folder.path(), index, "model-00002-of-000096.safetensors");
  EXPECT_EQ(shard.header.data_bytes, 16'990'092'800u);
}

TEST(Synth, WritesChosenShardsWithAnIndexOfThem) {
  const TempDir folder;
  SynthOptions options;
  options.shards = {4, 2, 2};
  EXPECT_EQ(make_checkpoint(folder.path(), options).shards, 2u);
  const CheckpointIndex index = load_index(folder / kIndexFileName);
  EXPECT_EQ(index.shards, (std::vector<std::string>{"model-00002-of-000007.safetensors",
                                                    "model-00004-of-000007.safetensors"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "model-00001-of-000007.safetensors"));
}

TEST(Synth, SplitsPairsOverShards) {
  const TempDir folder;
  SynthOptions options;
  options.split_pairs = true;
  options.experts.every = 2;
  make_checkpoint(folder.path(), options);
  const CheckpointIndex index = load_index(folder / kIndexFileName);
  for (const std::uint64_t layer : {1, 2, 3}) {
    for (const std::uint64_t expert : {0, 1}) {
      const std::string& w1 =
          *index.shard_of(expert_module_name(layer, expert, Projection::kW1) + ".weight_packed");
      const std::string& w3 =
          *index.shard_of(expert_module_name(layer, expert, Projection::kW3) + ".weight_packed");
      EXPECT_EQ(w1 != w3, expert == 0) << layer;
    }
  }
  for (const std::string& shard : index.shards)
    EXPECT_NO_THROW(read_shard_header(folder.path(), index, shard));
}

TEST(Synth, ShufflesAFile) {
  const TempDir folder;
  SynthOptions options;
  options.shuffle = true;
  make_checkpoint(folder.path(), options);
  const auto file = SafetensorsFile::open(folder / "model-00002-of-000007.safetensors");
  std::vector<std::string> names, released;
  for (const TensorInfo& tensor : file.header.tensors) names.push_back(tensor.name);
  for (const TensorInfo& tensor : layer_tensors(synth_config(SynthPreset::kTiny), 1))
    released.push_back(tensor.name);
  EXPECT_NE(names, released);
  std::sort(names.begin(), names.end());
  std::sort(released.begin(), released.end());
  EXPECT_EQ(names, released);
}

TEST(Synth, AddsATensorThatNobodyKnows) {
  SynthOptions options;
  options.extra_tensor = "language_model.model.layers.1.mystery.weight";
  const auto tensors = make_tensors(options);
  EXPECT_EQ(tensors.at(options.extra_tensor).size(), 2 * 160u);
  options.extra_tensor = "language_model.lm_head.weight";
  EXPECT_EQ(code_of([&] { make_tensors(options); }), ErrorCode::kUsage);
}

TEST(Synth, PutsNansIntoTheTrunkWhenAsked) {
  SynthOptions options;
  options.shards = {3};
  const std::string name = "language_model.model.layers.2.self_attn.o_proj.weight";
  const auto nans = [&](const std::vector<std::uint8_t>& bytes) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      const unsigned bits = (bytes[i] | bytes[i + 1] << 8) & 0x7FFF;
      count += bits > 0x7F80;
    }
    return count;
  };
  EXPECT_EQ(nans(make_tensors(options).at(name)), 0u);
  options.nan = true;
  EXPECT_EQ(nans(make_tensors(options).at(name)), 2u);
}

TEST(Synth, PadsALogWithZerosUnlessAskedOtherwise) {
  const auto a_log = [](SynthOptions options) {
    options.shards = {1};
    const auto bytes = make_tensors(options).at("language_model.model.layers.0.self_attn.A_log");
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const std::vector<float> plain = a_log({});
  ASSERT_EQ(plain.size(), 16u);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(plain[i] > 0, i < 4) << i;
  SynthOptions options;
  options.a_log_tail = true;
  EXPECT_NE(a_log(options).back(), 0.0F);
  options.sizes.heads = 32;
  EXPECT_EQ(code_of([&] { a_log(options); }), ErrorCode::kUsage);
}

TEST(Synth, TakesOtherSizes) {
  SynthOptions options;
  options.sizes.layers = 6, options.sizes.experts = 3, options.sizes.latent = 96,
  options.sizes.moe_width = 32;
  const auto tensors = make_tensors(options);
  EXPECT_EQ(tensors.at(expert_module_name(5, 2, Projection::kW1) + ".weight_packed").size(), 32u * 96 / 2);
  EXPECT_TRUE(tensors.contains("language_model.model.layers.3.self_attn.kv_b_proj.weight"));
  EXPECT_TRUE(tensors.contains("language_model.model.layers.4.self_attn.k_proj.weight"));
  EXPECT_TRUE(tensors.contains("language_model.model.layers.5.self_attn.kv_b_proj.weight"));
  options.sizes.latent = 40;
  EXPECT_EQ(code_of([&] { make_tensors(options); }), ErrorCode::kUsage);
}

TEST(Synth, RefusesOptionsThatMakeNoSense) {
  const auto usage = [](const auto& change) {
    SynthOptions options;
    change(options);
    EXPECT_EQ(code_of([&] { make_tensors(options); }), ErrorCode::kUsage);
  };
  usage([](SynthOptions& o) { o.shards = {8}; });
  usage([](SynthOptions& o) { o.shards = {0}; });
  usage([](SynthOptions& o) { o.experts.span = 25; });
  usage([](SynthOptions& o) { o.experts.every = 0; });
  usage([](SynthOptions& o) { o.experts.zero_groups = 1.5; });
  usage([](SynthOptions& o) { o.experts.negative_zeros = std::nan(""); });
  usage([](SynthOptions& o) { o.sizes.vocab = 10; });
}

TEST(Synth, RefusesAFolderThatIsNotEmpty) {
  const TempDir folder;
  make_checkpoint(folder.path(), {});
  EXPECT_EQ(code_of([&] { make_checkpoint(folder.path(), {}); }), ErrorCode::kExists);
}

TEST(Synth, OverwritesItsOwnWorkWholly) {
  const TempDir folder;
  SynthOptions options;
  make_checkpoint(folder.path(), options);
  options.sizes.layers = 2;
  options.overwrite = true;
  make_checkpoint(folder.path(), options);
  EXPECT_EQ(read_files(folder.path()), files_of(options));
}

TEST(Synth, NeverOverwritesTheWorkOfOthers) {
  const TempDir folder;
  write_file_atomically(folder / "model-00001-of-000096.safetensors", "precious");
  SynthOptions options;
  options.overwrite = true;
  EXPECT_EQ(code_of([&] { make_checkpoint(folder.path(), options); }), ErrorCode::kExists);
  EXPECT_EQ(read_files(folder.path()).at("model-00001-of-000096.safetensors"), "precious");
}

TEST(Synth, RefusesToStartWithoutRoomOnTheDisk) {
  SynthOptions options;
  options.preset = SynthPreset::kK3;
  const TempDir folder;
  if (std::filesystem::space(folder.path()).available > 1'500'000'000'000u)
    GTEST_SKIP() << "the disk is too large";
  EXPECT_EQ(code_of([&] { make_checkpoint(folder.path(), options); }), ErrorCode::kNoSpace);
}

TEST(Synth, LeavesNoIndexWhenInterrupted) {
  const TempDir folder;
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(code_of([&] { make_checkpoint(folder.path(), {}, &cancel); }), ErrorCode::kInterrupted);
  EXPECT_FALSE(std::filesystem::exists(folder / kIndexFileName));
  for (const auto& [name, text] : read_files(folder.path()))
    EXPECT_FALSE(name.ends_with(".safetensors")) << name;
}

}  // namespace
}  // namespace perigee
