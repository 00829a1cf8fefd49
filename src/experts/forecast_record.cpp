#include "experts/forecast_record.h"

#include <algorithm>

namespace perigee {
namespace {

// A rank is read ahead if at least this share of its forecasts comes true. Until it has been tried often
// enough, the likeliest few are.
constexpr double kWorthwhile = 0.4;
constexpr double kTrials = 64;
constexpr std::size_t kUntriedRanks = 8;

}  // namespace

std::size_t ForecastRecord::judge(std::span<const std::uint32_t> forecast,
                                  std::span<const std::uint32_t> experts) {
  if (ranks_.size() < forecast.size()) ranks_.resize(forecast.size());
  std::size_t right = 0;
  for (std::size_t rank = 0; rank < forecast.size(); ++rank) {
    const bool needed = std::ranges::binary_search(experts, forecast[rank]);
    right += needed;
    ranks_[rank].announced += 1;
    ranks_[rank].needed += needed;
  }
  return right;
}

bool ForecastRecord::is_worth_reading(std::size_t rank) const {
  if (rank >= ranks_.size() || ranks_[rank].announced < kTrials) return rank < kUntriedRanks;
  return ranks_[rank].needed >= kWorthwhile * ranks_[rank].announced;
}

}  // namespace perigee
