// Verification and unpacking of small stores, whole and damaged.
#include <gtest/gtest.h>

#include "checkpoint/index.h"
#include "pack/packed.h"
#include "pack/unpack.h"
#include "pack/verify_store.h"
#include "support/expect_error.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using test::small_model;
using test::store_of;

StoreVerification verify(const fs::path& store, const std::optional<fs::path>& source = std::nullopt) {
  return verify_store(store, source, test::quiet_work());
}

fs::path copy_of_store(const test::TempDir& folder) {
  fs::copy(store_of(small_model()), folder / "store", fs::copy_options::recursive);
  return folder / "store";
}

TEST(VerifyStore, ReadsEverythingOfAWholeStore) {
  const StoreVerification result = verify(store_of(small_model()), small_model());
  EXPECT_EQ(result.failures, 0u);
  EXPECT_EQ(result.records, 2 * 8u);
  EXPECT_EQ(result.compared, 2 * 8u);
  EXPECT_GT(result.same, 60u);
  EXPECT_EQ(result.rounded, 0u);
  EXPECT_EQ(verify(store_of(small_model())).compared, 0u);
}

TEST(VerifyStore, FindsOneBitInARecord) {
  const test::TempDir folder;
  const fs::path store = copy_of_store(folder);
  test::damage(store / "experts-00002.bin", 8192 + 5);
  const StoreVerification result = verify(store);
  ASSERT_EQ(result.failures, 1u);
  EXPECT_NE(result.kept[0].what.find("layer 2 expert "), std::string::npos) << result.kept[0].what;
  EXPECT_NE(result.kept[0].what.find("experts-00002.bin at byte"), std::string::npos);
  EXPECT_EQ(verify(store, small_model()).failures, 2u);  // its checksum, and the checkpoint
}

TEST(VerifyStore, FindsOneBitInTrunkAndHeads) {
  const test::TempDir folder;
  const fs::path store = copy_of_store(folder);
  test::damage(store / "trunk-00002.safetensors", fs::file_size(store / "trunk-00002.safetensors") - 9);
  StoreVerification result = verify(store);
  ASSERT_EQ(result.failures, 1u);
  EXPECT_NE(result.kept[0].what.find("trunk-00002.safetensors"), std::string::npos);
  EXPECT_EQ(verify(store, small_model()).failures, 2u);
  for (const auto& entry : fs::directory_iterator(store / ".source")) {
    if (entry.path().extension() == ".head") test::damage(entry.path(), 20);
  }
  result = verify(store);
  EXPECT_EQ(result.failures, 1u + result.report.shards.size());
}

TEST(VerifyStore, SaysThatAStoreIsOfAnotherCheckpoint) {
  const test::TempDir folder;
  SynthOptions options = test::mini_model_options();
  options.sizes.layers = 3;
  options.seed = 2;
  make_checkpoint(folder / "other", options);
  EXPECT_GT(verify(store_of(small_model()), folder / "other").failures, 16u);
}

TEST(VerifyStore, CountsWhatWasRounded) {
  std::uint64_t rounded = 0;
  for (const auto& [plane, sums] : test::rounded_store().report.planes) rounded += sums.rounded;
  const StoreVerification result = verify(test::rounded_store().path, small_model());
  EXPECT_EQ(result.failures, 0u);
  EXPECT_EQ(result.rounded, rounded);
  EXPECT_GT(rounded, 20u);
}

TEST(VerifyStore, FollowsLinks) {
  const test::LinkedStore& store = test::linked_store();
  EXPECT_EQ(verify(store.path, store.source).failures, 0u);
  const fs::path shard = store.source / "model-00002-of-000006.safetensors";
  const std::uint64_t last = fs::file_size(shard) - 1;
  test::damage(shard, last);
  EXPECT_EQ(verify(store.path).failures, 1u);
  test::damage(shard, last);  // as it was
}

TEST(Unpack, GivesBackTheReleaseByteForByte) {
  const test::TempDir folder;
  unpack_store(store_of(small_model()), folder / "back", test::quiet_work());
  EXPECT_EQ(test::tree(folder / "back"), test::tree(small_model()));
}

TEST(Unpack, FindsThatItHasBeenDoneAndTouchesNothing) {
  const test::TempDir folder;
  EXPECT_FALSE(unpack_store(store_of(small_model()), folder / "back", test::quiet_work()).already_complete);
  EXPECT_TRUE(unpack_store(store_of(small_model()), folder / "back", test::quiet_work()).already_complete);
  fs::remove(folder / "back" / kIndexFileName);
  EXPECT_ERROR(unpack_store(store_of(small_model()), folder / "back", test::quiet_work()), ErrorCode::kExists,
               "already holds");
}

TEST(Unpack, GivesBackConvertedShardsByteForByte) {
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors, Layout::kNvidiaMixed}) {
    const test::TempDir folder;
    const fs::path& source = test::converted_model(layout);
    unpack_store(store_of(source), folder / "back", test::quiet_work());
    std::size_t shards = 0;
    for (const auto& [name, bytes] : test::tree(source)) {
      if (!name.ends_with(".safetensors") && !name.ends_with(".index.json")) continue;
      EXPECT_EQ(bytes, read_small_file(folder / "back" / name, 1 << 26)) << name;
      ++shards;
    }
    EXPECT_EQ(shards, 7u);
  }
}

TEST(Unpack, RefusesWhatItCannotGiveBack) {
  const test::TempDir folder;
  const auto unpack = [&](const fs::path& store) {
    unpack_store(store, folder / "back", test::quiet_work());
  };
  EXPECT_ERROR(unpack(test::rounded_store().path), ErrorCode::kLossy, "attention");
  EXPECT_ERROR(unpack(test::linked_store().path), ErrorCode::kUnsupported, "linked");
  const fs::path& other = test::converted_model(Layout::kModelOpt);
  EXPECT_ERROR(unpack_store(store_of(small_model()), other, test::quiet_work()), ErrorCode::kExists,
               "choose an empty folder");
  EXPECT_ERROR(unpack(small_model()), ErrorCode::kNotFound, "experts.index");
}

}  // namespace
}  // namespace perigee
