#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>

#include "engine/loaded_mini.h"
#include "model/memory_needs.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

const Model& model() {
  static const auto ops = make_ops({});
  static const Model loaded(test::mini_weights(), *ops);
  return loaded;
}

const K3Config& config() {
  return model().config();
}

GenerationRequest request(std::vector<std::uint32_t> prompt) {
  GenerationRequest made;
  made.prompt = std::move(prompt);
  made.max_tokens = 1;
  return made;
}

// A sequence whose first `computed` ids have been read.
Sequence read_so_far(const GenerationRequest& from, std::size_t computed) {
  Sequence sequence(config(), from);
  Sequence* const only = &sequence;
  Engine(model(), {}).step({&only, 1}, {&computed, 1});
  EXPECT_EQ(sequence.computed(), computed);
  return sequence;
}

std::size_t found_tokens(PrefixCache& cache, const GenerationRequest& from) {
  const std::optional<SequenceState> state = cache.find(from);
  return state ? state->position : 0;
}

PrefixCacheOptions in_memory(std::uint64_t bytes = 64 << 20) {
  return {.memory_bytes = bytes, .folder = {}, .folder_bytes = 0};
}

PrefixCacheOptions in_folder(const fs::path& folder, std::uint64_t bytes = 64 << 20) {
  return {.memory_bytes = 0, .folder = folder, .folder_bytes = bytes};
}

std::vector<fs::path> snapshots_in(const fs::path& folder) {
  std::set<fs::path> found;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".snapshot") found.insert(file.path());
  }
  return {found.begin(), found.end()};
}

TEST(PrefixCache, FindsTheLongestPrefixThatLeavesSomethingToCompute) {
  PrefixCache cache(config(), "mini", in_memory());
  const GenerationRequest whole = request(test::mini_ids(30, 1));
  for (const std::size_t length : {5, 12, 20}) cache.keep(read_so_far(whole, length));
  GenerationRequest other = request(test::mini_ids(30, 2));
  EXPECT_EQ(found_tokens(cache, whole), 20u);
  EXPECT_EQ(found_tokens(cache, other), 0u);
  other.prompt = whole.prompt;
  other.prompt.resize(20);
  EXPECT_EQ(found_tokens(cache, other), 12u) << "a prefix must be shorter than the prompt";
  other.prompt[11] ^= 1;
  EXPECT_EQ(found_tokens(cache, other), 5u) << "one other id and the prefix is another";
  EXPECT_EQ(cache.statistics().hits, 3u);
  EXPECT_EQ(cache.statistics().misses, 1u);
}

TEST(PrefixCache, ContinuesExactlyWhereTheSnapshotWasTaken) {
  PrefixCache cache(config(), "mini", in_memory());
  GenerationRequest whole = request(test::mini_ids(30, 1));
  whole.max_tokens = 4;
  cache.keep(read_so_far(whole, 17));
  const Engine engine(model(), {});
  Sequence fresh(config(), whole), resumed(config(), whole);
  resumed.resume(*cache.find(whole));
  engine.run(fresh, {}, {}, CancelToken{});
  engine.run(resumed, {}, {}, CancelToken{});
  EXPECT_EQ(resumed.ids(), fresh.ids());
}

TEST(PrefixCache, KnowsWhatItHas) {
  PrefixCache cache(config(), "mini", in_memory());
  const GenerationRequest whole = request(test::mini_ids(30, 1));
  cache.keep(read_so_far(whole, 9));
  EXPECT_TRUE(cache.contains(whole, 9));
  EXPECT_FALSE(cache.contains(whole, 8));
  EXPECT_FALSE(cache.contains(request(test::mini_ids(30, 2)), 9));
}

TEST(PrefixCache, ImagesBelongToThePrefix) {
  PrefixCache cache(config(), "mini", in_memory());
  GenerationRequest cat = request(test::mini_ids(20, 1));
  cat.embeddings.push_back({4, std::vector<float>(config().hidden_size, 0.5F)});
  GenerationRequest dog = cat;
  dog.embeddings[0].values[7] = 0.25F;
  cache.keep(read_so_far(cat, 3));
  cache.keep(read_so_far(cat, 10));
  EXPECT_EQ(found_tokens(cache, cat), 10u);
  EXPECT_EQ(found_tokens(cache, dog), 3u) << "the ids in front of the image are shared";
}

TEST(PrefixCache, TheLeastRecentlyUsedMakesRoomInMemory) {
  const auto numbered = [](std::uint32_t i) { return request(test::mini_ids(8, i)); };
  PrefixCache large(config(), "mini", in_memory());
  large.keep(read_so_far(numbered(0), 6));
  const std::uint64_t one = large.statistics().memory_bytes;
  const std::uint32_t held = 20;  // enough that one more piece of cache, which is set aside, does not matter
  PrefixCache cache(config(), "mini", in_memory(held * one));
  for (std::uint32_t i = 0; i < held; ++i) cache.keep(read_so_far(numbered(i), 6));
  EXPECT_EQ(found_tokens(cache, numbered(0)), 6u);  // used, so it is not the oldest any more
  cache.keep(read_so_far(numbered(held), 6));
  EXPECT_EQ(cache.statistics().in_memory, held);
  EXPECT_EQ(cache.statistics().memory_bytes, held * one);
  EXPECT_EQ(found_tokens(cache, numbered(0)), 6u);
  EXPECT_EQ(found_tokens(cache, numbered(1)), 0u);
  EXPECT_EQ(found_tokens(cache, numbered(held)), 6u);
}

TEST(PrefixCache, FilesSurviveTheProcess) {
  const test::TempDir folder;
  const GenerationRequest whole = request(test::mini_ids(30, 1));
  {
    PrefixCache cache(config(), "mini", in_folder(folder.path()));
    cache.keep(read_so_far(whole, 11));
    cache.keep(read_so_far(whole, 19));
  }
  std::ofstream(folder / "29-0123456789abcdef.snapshot.partial") << "half a snapsh";
  std::ofstream(folder / "notes.txt") << "of somebody else";
  PrefixCache cache(config(), "mini", in_folder(folder.path()));
  EXPECT_EQ(cache.statistics().in_folder, 2u);
  EXPECT_TRUE(cache.contains(whole, 11));
  EXPECT_EQ(found_tokens(cache, whole), 19u);
  EXPECT_FALSE(fs::exists(folder / "29-0123456789abcdef.snapshot.partial"));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
}

TEST(PrefixCache, FilesOfAnotherModelAreNotFound) {
  const test::TempDir folder;
  const GenerationRequest whole = request(test::mini_ids(30, 1));
  {
    PrefixCache cache(config(), "mini", in_folder(folder.path()));
    cache.keep(read_so_far(whole, 11));
  }
  PrefixCache cache(config(), "another", in_folder(folder.path()));
  EXPECT_EQ(cache.statistics().in_folder, 1u);
  EXPECT_EQ(found_tokens(cache, whole), 0u);
}

TEST(PrefixCache, ADamagedFileIsDeletedAndTheNextShorterOneUsed) {
  const test::TempDir folder;
  const GenerationRequest whole = request(test::mini_ids(30, 1));
  PrefixCache cache(config(), "mini", in_folder(folder.path()));
  cache.keep(read_so_far(whole, 11));
  cache.keep(read_so_far(whole, 19));
  cache.wait_for_files();
  const std::vector<fs::path> files = snapshots_in(folder.path());
  ASSERT_EQ(files.size(), 2u);
  {
    std::fstream file(files[1], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file.put('!');
    file.put('?');
  }
  EXPECT_EQ(found_tokens(cache, whole), 11u);
  EXPECT_FALSE(fs::exists(files[1]));
  EXPECT_EQ(cache.statistics().damaged, 1u);
  fs::remove(files[0]);
  EXPECT_EQ(found_tokens(cache, whole), 0u) << "a file that somebody took away is no surprise";
}

TEST(PrefixCache, TheFolderKeepsToItsLimit) {
  const test::TempDir folder;
  const std::uint64_t limit = state_bytes(config(), 6, Precision::kBf16) + 1000;
  PrefixCache cache(config(), "mini", in_folder(folder.path(), limit));
  for (std::uint32_t i = 0; i < 12; ++i) {
    cache.keep(read_so_far(request(test::mini_ids(8, 50 + i)), 6));
    cache.wait_for_files();
  }
  EXPECT_LE(cache.statistics().folder_bytes, limit);
  EXPECT_GE(cache.statistics().in_folder, 1u);
  std::uint64_t bytes = 0;
  for (const fs::path& file : snapshots_in(folder.path())) bytes += fs::file_size(file);
  EXPECT_EQ(bytes, cache.statistics().folder_bytes);
  EXPECT_EQ(found_tokens(cache, request(test::mini_ids(8, 61))), 6u);
}

TEST(PrefixCache, AFolderBelongsToOneProcess) {
  const test::TempDir folder;
  PrefixCache cache(config(), "mini", in_folder(folder.path()));
  EXPECT_ERROR(PrefixCache(config(), "mini", in_folder(folder.path())), ErrorCode::kExists,
               "another process");
}

TEST(PrefixCache, FindsAPrefixOfALongPromptAtOnce) {
  PrefixCache cache(config(), "mini", in_memory());
  const GenerationRequest whole = request(test::mini_ids(30, 1));
  cache.keep(read_so_far(whole, 13));
  GenerationRequest longer = whole;
  const std::vector<std::uint32_t> more = test::mini_ids(200'000, 5);
  longer.prompt.insert(longer.prompt.end(), more.begin(), more.end());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(found_tokens(cache, longer), 13u);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 1.0);  // some milliseconds; a slow machine may take more
}

}  // namespace
}  // namespace perigee
