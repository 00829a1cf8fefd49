// One layer from one shard in all its forms, and what a damaged shard or conversion is told to be.
#include "proof/block_parity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors.h"
#include "proof/block_input.h"
#include "proof/expert_difference.h"
#include "support/expect_error.h"
#include "support/mini_model.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kLayer1 = "language_model.model.layers.1.";
const std::string kRouter = kLayer1 + "block_sparse_moe.gate.weight";

std::string shard_of(const std::string& tensor) {
  return *load_checkpoint_index(test::mini_model()).shard_of(tensor);
}

// A folder with one shard of the model and config.json, which tests may damage.
class OneShard {
 public:
  explicit OneShard(const fs::path& model = test::mini_model(), const std::string& tensor = kRouter) {
    const std::string name = *load_checkpoint_index(model).shard_of(tensor);
    fs::copy(model / "config.json", folder_ / "config.json");
    fs::copy(model / name, folder_ / name);
    shard_ = folder_ / name;
  }
  const fs::path& path() const { return shard_; }
  fs::path config() const { return folder_ / "config.json"; }

  // Puts bytes over those of a tensor.
  void overwrite(const std::string& tensor, std::uint64_t at, const std::vector<unsigned char>& bytes) const {
    const SafetensorsFile file = SafetensorsFile::open(shard_);
    const auto position = file.position(*file.header.find(tensor)) + at;
    std::fstream stream(shard_, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(position));
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  unsigned char byte(const std::string& tensor, std::uint64_t at) const {
    return static_cast<unsigned char>(SafetensorsFile::open(shard_).read(tensor).at(at));
  }
  // Another name of the same length in the header.
  void rename(const std::string& from, const std::string& to) const {
    std::ifstream in(shard_, std::ios::binary);
    std::string all{std::istreambuf_iterator<char>(in), {}};
    all.replace(all.find("\"" + from + "\""), from.size() + 2, "\"" + to + "\"");
    std::ofstream(shard_, std::ios::binary) << all;
  }

 private:
  test::TempDir folder_;
  fs::path shard_;
};

BlockParity check(const BlockParityOptions& options) {
  return check_block_parity(options, {});
}

BlockParityOptions quick(const fs::path& shard) {
  BlockParityOptions options;
  options.shard = shard;
  options.tokens = 5;
  options.threads = 1;
  options.backends = {available_backends().back()};
  return options;
}

// Made once for the whole test program.
fs::path nvfp4(Layout layout) {
  static const test::TempDir folder;
  const fs::path converted = folder / layout_name(layout);
  if (!fs::exists(converted)) test::make_nvfp4(test::mini_model(), converted, layout);
  return converted;
}

std::set<std::string> hashes(const BlockParity& parity) {
  std::set<std::string> all;
  for (const BlockRun& run : parity.runs)
    all.insert(fmt::format("{} {} {}", run.attention_hash, run.experts_hash, run.layer_hash));
  return all;
}

// KDA, KDA where a block starts, MLA, MLA in the last layer.
TEST(BlockParity, EveryFormOnEveryBackendGivesTheSameBits) {
  for (const std::uint64_t layer : {1, 2, 3, 5}) {
    BlockParityOptions options;
    options.shard = test::mini_model();
    options.layer = layer;
    options.tokens = 4;
    options.threads = 1;
    const BlockParity parity = check(options);
    EXPECT_TRUE(parity.equal());
    EXPECT_EQ(parity.layer, layer);
    EXPECT_EQ(parity.mla, layer == 3 || layer == 5);
    EXPECT_THAT(parity.runs, SizeIs(3 * available_backends().size()));
    EXPECT_THAT(hashes(parity), SizeIs(1));
    EXPECT_THAT(parity.chosen, SizeIs(::testing::Ge(3u)));
  }
}

TEST(BlockParity, OneShardAloneGivesWhatTheFolderGives) {
  const OneShard shard;
  const BlockParity alone = check(quick(shard.path()));
  const BlockParity folder = check(quick(test::mini_model()));
  EXPECT_EQ(alone.layer, 1u);
  EXPECT_EQ(hashes(alone), hashes(folder));
  EXPECT_EQ(alone.fingerprints, folder.fingerprints);
}

TEST(BlockParity, AShardIsCheckedAgainstAnIndexThatNamesMissingOnes) {
  const OneShard shard;
  fs::copy(test::mini_model() / kIndexFileName, shard.path().parent_path() / kIndexFileName);
  EXPECT_TRUE(check(quick(shard.path())).equal());
  EXPECT_TRUE(check(quick(shard.path().parent_path())).equal());
  shard.rename(kRouter, kLayer1 + "block_sparse_moe.gate.weighs");
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kCorrupt, "gate.weigh");
}

TEST(BlockParity, ConversionsOnDiskGiveTheSameBits) {
  BlockParityOptions options = quick(test::mini_model());
  options.against = {nvfp4(Layout::kModelOpt), nvfp4(Layout::kCompressedTensors)};
  const BlockParity parity = check(options);
  EXPECT_TRUE(parity.equal());
  ASSERT_THAT(parity.runs, SizeIs(3));  // so nothing was cast in memory
  EXPECT_THAT(parity.runs[1].form, HasSubstr("nvfp4-modelopt, "));
  EXPECT_THAT(parity.runs[2].form, HasSubstr("nvfp4-compressed-tensors, "));
}

TEST(BlockParity, FingerprintsAreHashesOfTheBytesInTheFile) {
  const OneShard shard;
  const BlockParity parity = check(quick(shard.path()));
  const SafetensorsFile file = SafetensorsFile::open(shard.path());
  std::set<std::string> names;
  for (const Fingerprint& print : parity.fingerprints) {
    const std::vector<std::byte> bytes = file.read(print.name);
    EXPECT_EQ(print.hash, xxh3_64(bytes)) << print.name;
    names.insert(print.name);
  }
  EXPECT_TRUE(names.contains(kRouter));
  for (const int expert : {0, 4, 7})
    EXPECT_TRUE(
        names.contains(fmt::format("{}block_sparse_moe.experts.{}.w2.weight_packed", kLayer1, expert)));
}

TEST(BlockParity, NamesTheExpertWhoseNibbleWasAltered) {
  const std::uint32_t expert = check(quick(test::mini_model())).chosen.at(1);
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors}) {
    const OneShard converted(nvfp4(layout));
    const std::string tensor = fmt::format("{}block_sparse_moe.experts.{}.w2.weight{}", kLayer1, expert,
                                           layout == Layout::kModelOpt ? "" : "_packed");
    const std::uint64_t at = 16 * 3 + 5;  // rows of 32 columns are 16 bytes: row 3, columns 10 and 11
    converted.overwrite(tensor, at, {static_cast<unsigned char>(converted.byte(tensor, at) ^ 0x30)});
    BlockParityOptions options = quick(test::mini_model());
    options.against = {converted.path()};
    const BlockParity parity = check(options);
    EXPECT_FALSE(parity.equal());
    ASSERT_THAT(parity.differences, SizeIs(1));
    EXPECT_THAT(parity.differences[0].what, HasSubstr(fmt::format("expert {} w2 row 3 column 11", expert)));
    EXPECT_FALSE(parity.runs[1].equal);
    EXPECT_EQ(parity.runs[1].attention_hash, parity.runs[0].attention_hash);
    EXPECT_NE(parity.runs[1].experts_hash, parity.runs[0].experts_hash);
  }
}

TEST(BlockParity, NamesATensorOfTheTrunkThatIsAnother) {
  const OneShard converted(nvfp4(Layout::kModelOpt));
  converted.overwrite(kRouter, 0, {static_cast<unsigned char>(converted.byte(kRouter, 0) ^ 1)});
  BlockParityOptions options = quick(test::mini_model());
  options.against = {converted.path()};
  const BlockParity parity = check(options);
  EXPECT_FALSE(parity.equal());
  ASSERT_THAT(parity.differences, SizeIs(1));
  EXPECT_THAT(parity.differences[0].what, HasSubstr(kRouter));
}

TEST(BlockParity, NamesWhatIsNotANumber) {
  const OneShard shard;
  const std::string scale = fmt::format("{}block_sparse_moe.experts.{}.w3.weight_scale", kLayer1,
                                        check(quick(shard.path())).chosen[0]);
  const unsigned char good = shard.byte(scale, 3);
  shard.overwrite(scale, 3, {0xFF});  // rows of 64 columns have two scales
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kCorrupt, scale + " row 1 column 1");
  shard.overwrite(scale, 3, {good});
  shard.overwrite(kLayer1 + "self_attn.o_proj.weight", 2, {0xC0, 0x7F});
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kCorrupt, "self_attn.o_proj.weight row 0 column 1");
}

TEST(BlockParity, NamesAMissingTensor) {
  const OneShard shard;
  const std::string tensor = kLayer1 + "block_sparse_moe.experts.6.w2.weight_packed";
  shard.rename(tensor, "vision_tower." + std::string(tensor.size() - 13, 'x'));
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kNotFound, "experts.6.w2");
}

TEST(BlockParity, RefusesWhatIsNotTheLayerOfItsConfig) {
  EXPECT_ERROR(
      check(quick(test::mini_model() / shard_of("language_model.model.layers.0.input_layernorm.weight"))),
      ErrorCode::kNotFound, "no routed experts");
  const OneShard shard(test::mini_model(), "language_model.model.layers.5.input_layernorm.weight");
  BlockParityOptions other = quick(shard.path());
  other.layer = 2;
  EXPECT_ERROR(check(other), ErrorCode::kNotFound, "layer 2; it has those of 5");

  std::ifstream in(shard.config());
  nlohmann::json config = nlohmann::json::parse(in);
  nlohmann::json& text = config["text_config"];
  text["first_k_dense_replace"] = 6;
  std::ofstream(shard.config()) << config;
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kUnsupported, "dense");
  text["first_k_dense_replace"] = 1;
  text["num_hidden_layers"] = 4;
  text["linear_attn_config"]["full_attn_layers"] = {4};
  text["linear_attn_config"]["kda_layers"] = {1, 2, 3};
  std::ofstream(shard.config()) << config;
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kUnsupported,
               "holds layer 5, but config.json describes 4");
  fs::remove(shard.config());
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kNotFound, "config.json");
}

TEST(BlockParity, RefusesATruncatedShard) {
  const OneShard shard;
  fs::resize_file(shard.path(), fs::file_size(shard.path()) - 1);
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kCorrupt, shard.path().filename().string());
  fs::resize_file(shard.path(), 0);
  EXPECT_ERROR(check(quick(shard.path())), ErrorCode::kCorrupt, "empty");
}

TEST(BlockParity, RefusesMoreMemoryThanItMayUse) {
  BlockParityOptions options = quick(test::mini_model());
  options.memory_limit_bytes = 100'000;
  EXPECT_ERROR(check(options), ErrorCode::kNoSpace, "memory");
}

TEST(BlockParity, TellsWhenThereIsNoLosslessCast) {
  const test::TempDir folder;
  SynthOptions wide = test::mini_model_options();
  wide.experts.span = 20;
  make_checkpoint(folder / "wide", wide);
  EXPECT_ERROR(check(quick(folder / "wide")), ErrorCode::kLossy, "binades");
}

TEST(BlockInput, ARowDependsOnItsPositionAlone) {
  const K3Config config = load_config(test::mini_model() / "config.json");
  const ResidualStream whole = block_input(config, 3, 0, 6), part = block_input(config, 3, 4, 2);
  ASSERT_THAT(whole.bank, SizeIs(2));  // blocks of two layers: those of 0 and 2 have started
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t c = 0; c < config.hidden_size; ++c) {
      EXPECT_EQ(whole.prefix[4 + row][c], part.prefix[row][c]);
      EXPECT_EQ(whole.bank[1][4 + row][c], part.bank[1][row][c]);
    }
  }
  EXPECT_THAT(block_input(config, 4, 0, 1).bank, SizeIs(2));
  EXPECT_THAT(block_input(config, 5, 0, 1).bank, SizeIs(3));
}

TEST(BlockInput, HasDeviationOneAndAFewLargeChannels) {
  const K3Config config = load_config(test::mini_model() / "config.json");
  const ResidualStream stream = block_input(config, 1, 0, 200);
  double sum = 0, squares = 0, large = 0;
  std::size_t count = 0;
  for (std::size_t row = 0; row < 200; ++row) {
    for (std::size_t c = 0; c < config.hidden_size; ++c) {
      const double x = stream.prefix[row][c];
      if (c % 251 == 7) {
        large += x * x / 200 / 2;  // of 288 channels, 7 and 258
        continue;
      }
      sum += x, squares += x * x, ++count;
    }
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.02);
  EXPECT_NEAR(squares / static_cast<double>(count), 1, 0.02);
  EXPECT_NEAR(large, 900, 150);
}

// 1.5 * 2^-3 in both; NVFP4 has it as 0x38 (1.0) times 2^-3, or as 0x40 (2.0) times 2^-4.
TEST(ExpertDifference, IsOfValuesNotOfBytes) {
  const std::vector<std::byte> nibbles(16, std::byte{0x33}), e8m0(1, std::byte{124});
  const std::vector<std::byte> one(2, std::byte{0x38}), two(2, std::byte{0x40});
  const Matrix mxfp4{WeightFormat::kMxfp4, 1, 32, nibbles.data(), e8m0.data(), 1};
  const Matrix a{WeightFormat::kNvfp4, 1, 32, nibbles.data(), one.data(), 0x1p-3F};
  const Matrix b{WeightFormat::kNvfp4, 1, 32, nibbles.data(), two.data(), 0x1p-4F};
  EXPECT_FALSE(first_difference({mxfp4, mxfp4, mxfp4}, {a, b, a}));
  Matrix other = b;
  other.global_scale = 0x1p-5F;
  const auto difference = first_difference({mxfp4, mxfp4, mxfp4}, {a, other, a});
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->projection, "w2");
  EXPECT_EQ(difference->expected, 0.1875);
  EXPECT_EQ(difference->found, 0.09375);
}

}  // namespace
}  // namespace perigee
