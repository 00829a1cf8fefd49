#include "experts/forecast_record.h"

#include <gtest/gtest.h>

#include <numeric>

namespace perigee {
namespace {

TEST(ForecastRecord, TrustsTheLikeliestFewBeforeItKnows) {
  const ForecastRecord record;
  EXPECT_TRUE(record.is_worth_reading(0));
  EXPECT_TRUE(record.is_worth_reading(7));
  EXPECT_FALSE(record.is_worth_reading(8));
}

// Ranks 0 to 11 come true always, 12 to 15 in every fourth layer.
TEST(ForecastRecord, ReadsTheRanksThatComeTrue) {
  ForecastRecord record;
  std::vector<std::uint32_t> forecast(16);
  std::iota(forecast.begin(), forecast.end(), 100U);
  std::size_t right = 0;
  for (int layer = 0; layer < 100; ++layer) {
    const auto needed = static_cast<std::ptrdiff_t>(layer % 4 == 0 ? 16 : 12);
    right += record.judge(forecast, std::vector(forecast.begin(), forecast.begin() + needed));
  }
  EXPECT_EQ(right, 100u * 12 + 25 * 4);
  EXPECT_TRUE(record.is_worth_reading(11));
  EXPECT_FALSE(record.is_worth_reading(12));
  EXPECT_FALSE(record.is_worth_reading(16));
}

}  // namespace
}  // namespace perigee
