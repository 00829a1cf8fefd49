#include "checkpoint/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "support/paths.h"
#include "support/real_index.h"
#include "support/temp_dir.h"

namespace perigee::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSmall = R"({
  "metadata": {
    "total_size": 12
  },
  "weight_map": {
    "b": "m2.safetensors",
    "a": "m1.safetensors",
    "c\"": "m2.safetensors"
  }
}
)";

TEST(CheckpointIndex, KeepsTheOrderOfTheFileAndSortsShards) {
  const CheckpointIndex index = parse_index(kSmall, "input");
  EXPECT_THAT(index.shards, ElementsAre("m1.safetensors", "m2.safetensors"));
  ASSERT_EQ(index.entries.size(), 3U);
  EXPECT_EQ(index.entries[0].name, "b");
  EXPECT_EQ(index.entries[0].shard, 1U);
  EXPECT_EQ(index.entries[1].shard, 0U);
  EXPECT_EQ(index.total_size, 12U);
  EXPECT_EQ(*index.shard_of("c\""), "m2.safetensors");
  EXPECT_EQ(index.shard_of("d"), nullptr);
}

TEST(CheckpointIndex, IsWrittenAsItWasRead) {
  EXPECT_EQ(serialize_index(parse_index(kSmall, "input")), kSmall);
}

TEST(CheckpointIndex, IsWrittenWithoutEntriesToo) {
  EXPECT_EQ(serialize_index(CheckpointIndex()), "{\n  \"metadata\": {},\n  \"weight_map\": {}\n}\n");
}

TEST(CheckpointIndex, NeedsNoTotalSizeAndToleratesOtherKeys) {
  const CheckpointIndex index = parse_index(
      R"( {"x":[1,-2.5e3,{"y":null}],"metadata":{"format":"pt","n":true},"weight_map":{}} )", "input");
  EXPECT_FALSE(index.total_size);
  EXPECT_THAT(index.entries, IsEmpty());
}

TEST(CheckpointIndex, SurvivesAMoveAndCannotBeCopied) {
  static_assert(!std::is_copy_constructible_v<CheckpointIndex>);
  CheckpointIndex index = parse_index(kSmall, "input");
  const CheckpointIndex moved = std::move(index);
  EXPECT_EQ(*moved.shard_of("a"), "m1.safetensors");
}

TEST(CheckpointIndex, IsMadeFromASingleFile) {
  const TempDir folder;
  std::vector<TensorInfo> tensors(1);
  tensors[0] = {"a", DType::kU8, {3}};
  assign_offsets(tensors);
  write_file_atomically(folder / "only.safetensors", serialize_safetensors_header(tensors, {}) + "123");
  const CheckpointIndex index = load_checkpoint_index(folder.path());
  EXPECT_EQ(*index.shard_of("a"), "only.safetensors");
  EXPECT_EQ(index.total_size, 3U);
}

TEST(CheckpointIndex, IsNotGuessedFromSeveralFiles) {
  const TempDir folder;
  for (const char* name : {"a.safetensors", "b.safetensors"})
    write_file_atomically(folder / name, serialize_safetensors_header({}, {}));
  try {
    static_cast<void>(load_checkpoint_index(folder.path()));
    ADD_FAILURE() << "made an index of two files";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("has no model.safetensors.index.json and 2 *.safetensors files"));
  }
}

TEST(CheckpointIndex, OfAMissingFolderIsNotFound) {
  const TempDir folder;
  try {
    static_cast<void>(load_checkpoint_index(folder / "absent"));
    ADD_FAILURE() << "read a folder that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("absent"));
  }
}

TEST(CheckpointIndex, ReadsTheReferenceConversion) {
  const CheckpointIndex index = load_checkpoint_index(test::data_folder() / "convert/source");
  EXPECT_EQ(index.entries.size(), 162U);
  EXPECT_EQ(index.shards.size(), 3U);
}

TEST(CheckpointIndex, ReadsTheReleasedIndex) {
  const auto names = read_real_index(test::shared_folder());
  if (!names) GTEST_SKIP() << "the released index is not on this machine";
  CheckpointIndex made;
  made.total_size = 1'560'860'324'864;
  for (const auto& [file, tensors] : *names) {
    for (const std::string& tensor : tensors)
      made.entries.push_back({tensor, static_cast<std::uint32_t>(made.shards.size())});
    made.shards.push_back(file);
  }
  const CheckpointIndex index = parse_index(serialize_index(made), "input");
  EXPECT_EQ(index.entries.size(), 497'220U);
  EXPECT_EQ(index.shards.size(), 96U);
  EXPECT_EQ(index.shards.back(), "model-00096-of-000096.safetensors");
  EXPECT_EQ(*index.shard_of("language_model.lm_head.weight"), "model-00094-of-000096.safetensors");
}

}  // namespace
}  // namespace perigee::test
