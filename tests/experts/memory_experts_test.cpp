#include <gtest/gtest.h>

#include <array>

#include "experts/expert_source.h"

namespace perigee {
namespace {

// Says which expert it was asked for through w1.rows.
class Numbered : public MemoryExperts {
 public:
  ExpertWeights get(std::uint64_t layer, std::uint64_t expert) const override {
    ExpertWeights weights;
    weights.w1.rows = layer * 100 + expert;
    return weights;
  }
};

TEST(MemoryExperts, GiveEveryExpertOnceUnderItsPlaceInTheList) {
  Numbered source;
  const std::array<std::uint32_t, 3> wanted = {2, 5, 7};
  const auto lease = source.acquire(3, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto arrived = lease->next();
    ASSERT_TRUE(arrived.has_value());
    EXPECT_EQ(arrived->index, i);
    EXPECT_EQ(arrived->weights.w1.rows, 300 + wanted[i]);
  }
  EXPECT_FALSE(lease->next().has_value());
  EXPECT_FALSE(lease->next().has_value());
}

}  // namespace
}  // namespace perigee
