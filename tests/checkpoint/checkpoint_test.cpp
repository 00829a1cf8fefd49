#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace perigee::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kGoldens = test::data_folder() / "convert";
const std::string kModule = "language_model.model.layers.1.block_sparse_moe.experts.0.w1";

void expect_error(ErrorCode code, const std::string& sentence, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error with: " << sentence;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(sentence));
  }
}

SafetensorsHeader header_of(std::vector<TensorInfo> tensors) {
  const std::uint64_t data = assign_offsets(tensors);
  const std::string bytes = serialize_safetensors_header(tensors, {});
  return parse_safetensors_header(std::as_bytes(std::span(bytes)).subspan(8), bytes.size() + data, "input");
}

TEST(ShardHeader, AgreesWithTheIndexOfTheReference) {
  const CheckpointIndex index = load_checkpoint_index(kGoldens / "source");
  std::uint64_t tensors = 0;
  for (const std::string& shard : index.shards) {
    const ShardHeader header = read_shard_header(kGoldens / "source", index, shard);
    EXPECT_EQ(header.file_bytes, fs::file_size(kGoldens / "source" / shard));
    EXPECT_NE(header.modified_ns, 0);
    tensors += header.header.tensors.size();
  }
  EXPECT_EQ(tensors, index.entries.size());
}

class Agreement : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<TensorInfo> tensors(2);
    tensors[0] = {"a", DType::kU8, {1}};
    tensors[1] = {"b", DType::kU8, {1}};
    assign_offsets(tensors);
    write_file_atomically(folder_ / "m.safetensors", serialize_safetensors_header(tensors, {}) + "12");
  }

  void read(const std::string& weight_map) {
    const CheckpointIndex index = parse_index("{\"weight_map\":" + weight_map + "}", "index");
    static_cast<void>(read_shard_header(folder_.path(), index, "m.safetensors"));
  }

  TempDir folder_;
};

TEST_F(Agreement, OfFileAndIndexIsAccepted) {
  EXPECT_NO_THROW(read(R"({"b":"m.safetensors","a":"m.safetensors","c":"n.safetensors"})"));
}

TEST_F(Agreement, NeedsEveryTensorOfTheFileInTheIndex) {
  expect_error(ErrorCode::kCorrupt, "m.safetensors: tensor \"b\" is in the file but not in the index",
               [&] { read(R"({"a":"m.safetensors"})"); });
}

TEST_F(Agreement, NeedsTheIndexToNameTheRightFile) {
  expect_error(ErrorCode::kCorrupt,
               "m.safetensors: tensor \"b\" is in this file, but the index says it is in n.safetensors",
               [&] { read(R"({"a":"m.safetensors","b":"n.safetensors"})"); });
}

TEST_F(Agreement, NeedsEveryIndexedTensorInTheFile) {
  expect_error(ErrorCode::kCorrupt,
               "m.safetensors: tensor \"c\" should be in this file according to the index",
               [&] { read(R"({"a":"m.safetensors","b":"m.safetensors","c":"m.safetensors"})"); });
}

TEST_F(Agreement, NamesAMissingShard) {
  const CheckpointIndex index = parse_index(R"({"weight_map":{"a":"n.safetensors"}})", "index");
  expect_error(ErrorCode::kNotFound, "n.safetensors is named in the index but does not exist; download it",
               [&] { static_cast<void>(read_shard_header(folder_.path(), index, "n.safetensors")); });
  expect_error(ErrorCode::kNotFound, "the index names no file \"o.safetensors\"",
               [&] { static_cast<void>(read_shard_header(folder_.path(), index, "o.safetensors")); });
}

TEST(Inventory, CountsTheReference) {
  const CheckpointIndex index = load_checkpoint_index(kGoldens / "source");
  Inventory inventory;
  for (const std::string& shard : index.shards) {
    for (const TensorInfo& tensor : read_shard_header(kGoldens / "source", index, shard).header.tensors)
      inventory.add(tensor);
  }
  EXPECT_EQ(inventory.tensors, 162U);
  EXPECT_EQ(inventory.bytes, index.total_size);
  EXPECT_EQ(inventory.experts, 12U);
  EXPECT_EQ(inventory.expert_modules, 36U);
  EXPECT_EQ(inventory.by_class.at(static_cast<int>(TensorClass::kExpert)).tensors, 72U);
  // Latent 64, expert width 96: 2 x 96 x 2 blocks of w1 and w3, 64 x 3 of w2.
  EXPECT_EQ(inventory.mxfp4_blocks, 12U * (2 * 96 * 2 + 64 * 3));
  EXPECT_TRUE(inventory.unknown.empty());
}

TEST(Inventory, CountsNvfp4ModulesAndReportsUnknownNames) {
  Inventory inventory;
  inventory.add({kModule + ".weight", DType::kU8, {4, 16}, 0, 64});
  inventory.add({kModule + ".weight_scale", DType::kF8E4M3, {4, 2}, 64, 72});
  inventory.add({"model.something.weight", DType::kF32, {1}, 72, 76});
  EXPECT_EQ(inventory.expert_modules, 1U);
  EXPECT_EQ(inventory.experts, 1U);
  EXPECT_EQ(inventory.mxfp4_blocks, 0U);
  EXPECT_THAT(inventory.unknown, ::testing::ElementsAre("model.something.weight"));
}

TEST(ExpertFormat, OfTheReferenceConversionsIsDetected) {
  const auto detect = [](const char* path) {
    return detect_expert_format(SafetensorsFile::open(kGoldens / path).header, path);
  };
  EXPECT_EQ(detect("source/model-00002-of-000003.safetensors"), ExpertFormat::kMxfp4);
  EXPECT_EQ(detect("cast_modelopt/experts.safetensors"), ExpertFormat::kNvfp4ModelOpt);
  EXPECT_EQ(detect("requant_modelopt/experts.safetensors"), ExpertFormat::kNvfp4ModelOpt);
  EXPECT_EQ(detect("cast_ct/experts.safetensors"), ExpertFormat::kNvfp4CompressedTensors);
  EXPECT_EQ(detect("mixed_modelopt/attention.safetensors"), ExpertFormat::kNone);
}

struct Parts {
  std::string name;
  std::vector<TensorInfo> tensors;
};

TensorInfo part(const std::string& suffix, DType dtype, std::vector<std::uint64_t> shape) {
  return {kModule + "." + suffix, dtype, std::move(shape)};
}

TEST(ExpertFormat, AcceptsTheVariantsOfReaders) {
  const TensorInfo packed = part("weight_packed", DType::kU8, {4, 32});
  EXPECT_EQ(detect_expert_format(header_of({packed, part("weight_scale", DType::kF8E8M0, {4, 2})}), "input"),
            ExpertFormat::kMxfp4);
  for (const std::vector<std::uint64_t>& scalar : {std::vector<std::uint64_t>{}, {1}}) {
    EXPECT_EQ(detect_expert_format(header_of({packed, part("weight_scale", DType::kF8E4M3, {4, 4}),
                                              part("weight_global_scale", DType::kF32, scalar)}),
                                   "input"),
              ExpertFormat::kNvfp4CompressedTensors);
  }
}

TEST(ExpertFormat, RefusesOtherCombinationsNamingTheModule) {
  const TensorInfo packed = part("weight_packed", DType::kU8, {4, 32});
  const TensorInfo weight = part("weight", DType::kU8, {4, 32});
  const TensorInfo exponents = part("weight_scale", DType::kU8, {4, 2});
  const TensorInfo scale = part("weight_scale", DType::kF8E4M3, {4, 4});
  const std::vector<Parts> combinations = {
      {"packed alone", {packed}},
      {"scale alone", {exponents}},
      {"plain weight", {part("weight", DType::kBF16, {4, 64})}},
      {"wrong group", {packed, part("weight_scale", DType::kU8, {4, 4})}},
      {"half as many scales", {packed, part("weight_scale", DType::kF8E4M3, {4, 2})}},
      {"scales of other rows", {packed, part("weight_scale", DType::kU8, {5, 2})}},
      {"row not of whole groups", {part("weight_packed", DType::kU8, {4, 33}), exponents}},
      {"one dimension", {part("weight_packed", DType::kU8, {128}), exponents}},
      {"packed as I8", {part("weight_packed", DType::kI8, {4, 32}), exponents}},
      {"no global scale", {packed, scale}},
      {"no second scale", {weight, scale}},
      {"second scale of two", {weight, scale, part("weight_scale_2", DType::kF32, {2})}},
      {"second scale in BF16", {weight, scale, part("weight_scale_2", DType::kBF16, {})}},
      {"both conventions",
       {weight, scale, part("weight_scale_2", DType::kF32, {}),
        part("weight_global_scale", DType::kF32, {1})}},
      {"exponents and a global scale", {packed, exponents, part("weight_global_scale", DType::kF32, {1})}},
  };
  for (const Parts& combination : combinations) {
    SCOPED_TRACE(combination.name);
    expect_error(ErrorCode::kUnsupported, "expert module " + kModule + " has ",
                 [&] { static_cast<void>(detect_expert_format(header_of(combination.tensors), "input")); });
  }
}

TEST(ExpertFormat, RefusesTwoFormatsInOneFile) {
  const std::string other = "language_model.model.layers.1.block_sparse_moe.experts.1.w1";
  const SafetensorsHeader header = header_of({part("weight_packed", DType::kU8, {4, 32}),
                                              part("weight_scale", DType::kU8, {4, 2}),
                                              {other + ".weight_packed", DType::kU8, {4, 32}},
                                              {other + ".weight_scale", DType::kF8E4M3, {4, 4}},
                                              {other + ".weight_global_scale", DType::kF32, {1}}});
  expect_error(
      ErrorCode::kCorrupt,
      "expert module " + kModule + " is stored as mxfp4, but " + other + " as nvfp4-compressed-tensors",
      [&] { static_cast<void>(detect_expert_format(header, "input")); });
}

}  // namespace
}  // namespace perigee::test
