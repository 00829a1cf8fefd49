// How often forecasts of a layer's experts came true, rank by rank: the likeliest come true most often, and
// those further behind would mostly cost reads. StreamedExperts decides by it what is read ahead, and so does
// a replay of a trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perigee {

class ForecastRecord {
 public:
  // `forecast`, likeliest first, was made for a layer that then asked for `experts`, ascending. Returns how
  // many of the forecast were among them.
  std::size_t judge(std::span<const std::uint32_t> forecast, std::span<const std::uint32_t> experts);

  // Whether what is forecast at this rank is worth a read.
  bool is_worth_reading(std::size_t rank) const;

 private:
  struct Rank {
    double announced = 0, needed = 0;
  };
  std::vector<Rank> ranks_;
};

}  // namespace perigee
