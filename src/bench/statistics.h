// Medians, because other work on the machine disturbs single rounds.
#pragma once

#include <algorithm>
#include <vector>

namespace perigee {

// The middle value, the upper one of two; 0 of nothing.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace perigee
