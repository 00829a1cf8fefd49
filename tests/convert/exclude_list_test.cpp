#include "convert/exclude_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "support/paths.h"

namespace perigee {
namespace {

K3Config config_with_dense_layers(std::uint64_t dense) {
  K3Config config;
  config.num_hidden_layers = 12;
  config.first_k_dense_replace = dense;
  config.moe_layer_freq = 1;
  config.is_mla.assign(12, false);
  return config;
}

bool contains(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

TEST(ExcludeList, OfTheMixedLayoutIsNvidiasInItsOrder) {
  const auto golden = nlohmann::json::parse(
      read_small_file(test::data_folder() / "convert/mixed_modelopt/hf_quant_config.json", 1 << 20));
  EXPECT_EQ(nlohmann::json(exclude_list(Layout::kNvidiaMixed, config_with_dense_layers(1))),
            golden.at("quantization").at("exclude_modules"));
}

TEST(ExcludeList, NeverNamesTheExpertsOrTheirParents) {
  for (const Layout layout : {Layout::kModelOpt, Layout::kNvidiaMixed, Layout::kCompressedTensors}) {
    for (const std::string& entry : exclude_list(layout, config_with_dense_layers(1))) {
      for (const char* forbidden :
           {"*mlp*", "*experts*", "*block_sparse_moe*", "mlp", "experts", "block_sparse_moe"}) {
        EXPECT_NE(entry, forbidden);
      }
    }
  }
}

TEST(ExcludeList, HasAnEntryForEachDenseLayer) {
  const auto two = exclude_list(Layout::kModelOpt, config_with_dense_layers(2));
  EXPECT_TRUE(contains(two, "*layers.0.mlp.*"));
  EXPECT_TRUE(contains(two, "*layers.1.mlp.*"));
  EXPECT_FALSE(contains(two, "*layers.2.mlp.*"));
  const auto none = exclude_list(Layout::kModelOpt, config_with_dense_layers(0));
  EXPECT_TRUE(std::none_of(none.begin(), none.end(), [](const std::string& entry) {
    return entry.find("layers.") != std::string::npos;
  }));
}

TEST(ExcludeList, OfCompressedTensorsContinuesTheReleasedOne) {
  const K3Config config = config_with_dense_layers(1);
  const auto released = exclude_list(Layout::kMxfp4, config);
  const auto completed = exclude_list(Layout::kCompressedTensors, config);
  ASSERT_EQ(released.size(), 6u);
  ASSERT_GT(completed.size(), released.size());
  EXPECT_TRUE(std::equal(released.begin(), released.end(), completed.begin()));
  EXPECT_TRUE(contains(completed, "re:.*routed_expert_.*"));
}

}  // namespace
}  // namespace perigee
