#include "convert/selection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"

namespace perigee {
namespace {

using Numbers = std::vector<std::uint64_t>;
using Names = std::vector<std::string>;

TEST(NumberList, ReadsNumbersAndRangesInAnyOrder) {
  EXPECT_EQ(parse_number_list("3", "--shards"), Numbers{3});
  EXPECT_EQ(parse_number_list("7,1-4,2", "--shards"), (Numbers{1, 2, 3, 4, 7}));
  EXPECT_EQ(parse_number_list("0-0", "--layers"), Numbers{0});
}

TEST(NumberList, RefusesEverythingElse) {
  for (const char* text : {"", ",", "1,", ",1", "-", "1-", "-1", "a", "1-2-3", "1 2", "0x1", "+1", "1.5",
                           "99999999999999999999", "100001", "1--2"}) {
    EXPECT_ERROR(parse_number_list(text, "--shards"), ErrorCode::kUsage, "--shards");
  }
  EXPECT_ERROR(parse_number_list("4-2", "--layers"), ErrorCode::kUsage, "backwards");
}

CheckpointIndex index_of_layers() {
  CheckpointIndex index;
  index.shards = {"a.safetensors", "b.safetensors", "c.safetensors"};
  index.entries = {{"language_model.model.layers.0.input_layernorm.weight", 0},
                   {"language_model.model.layers.1.input_layernorm.weight", 1},
                   {"language_model.model.layers.1.mlp_res_norm.weight", 0},
                   {"language_model.lm_head.weight", 2}};
  index.rebuild_lookup();
  return index;
}

TEST(SelectShards, TakesAllWhenNothingIsAskedFor) {
  EXPECT_EQ(select_shards(index_of_layers(), {}, {}),
            (Names{"a.safetensors", "b.safetensors", "c.safetensors"}));
}

TEST(SelectShards, TakesNumbersFromOneAndShardsOfLayers) {
  EXPECT_EQ(select_shards(index_of_layers(), {2, 3}, {}), (Names{"b.safetensors", "c.safetensors"}));
  EXPECT_EQ(select_shards(index_of_layers(), {}, {0}), (Names{"a.safetensors"}));
  EXPECT_EQ(select_shards(index_of_layers(), {}, {1}), (Names{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(select_shards(index_of_layers(), {2}, {1}), (Names{"b.safetensors"}));
}

TEST(SelectShards, NamesWhatDoesNotExist) {
  EXPECT_ERROR(select_shards(index_of_layers(), {0}, {}), ErrorCode::kUsage, "shards 1 to 3");
  EXPECT_ERROR(select_shards(index_of_layers(), {4}, {}), ErrorCode::kUsage, "--shards 4");
  EXPECT_ERROR(select_shards(index_of_layers(), {}, {2}), ErrorCode::kUsage, "--layers 2");
  EXPECT_ERROR(select_shards(index_of_layers(), {3}, {0}), ErrorCode::kUsage, "select nothing");
}

TEST(ShardsOfRank, CoverEverythingOnce) {
  const Names shards = {"a", "b", "c", "d", "e"};
  Names together;
  for (unsigned rank = 0; rank < 3; ++rank) {
    for (const std::string& name : shards_of_rank(shards, rank, 3)) together.push_back(name);
  }
  std::ranges::sort(together);
  EXPECT_EQ(together, shards);
  EXPECT_EQ(shards_of_rank(shards, 1, 2), (Names{"b", "d"}));
}

}  // namespace
}  // namespace perigee
