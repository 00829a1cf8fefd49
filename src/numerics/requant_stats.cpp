// Summary numbers of a requantisation. A module without any nonzero source value has no direction or norm to
// lose, so it counts as unchanged as long as its output is zero too.
#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/requantise.h"

namespace perigee {

void RequantStats::add(const RequantStats& other) {
  blocks16 += other.blocks16;
  changed_blocks16 += other.changed_blocks16;
  sum_source_squared += other.sum_source_squared;
  sum_output_squared += other.sum_output_squared;
  sum_product += other.sum_product;
  sum_error_squared += other.sum_error_squared;
  max_abs_error = std::max(max_abs_error, other.max_abs_error);
}

double RequantStats::relative_rmse() const {
  if (sum_error_squared == 0) return 0;
  if (sum_source_squared == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(sum_error_squared / sum_source_squared);
}

double RequantStats::cosine() const {
  if (sum_source_squared == 0 && sum_output_squared == 0) return 1;
  if (sum_source_squared == 0 || sum_output_squared == 0) return 0;
  return sum_product / (std::sqrt(sum_source_squared) * std::sqrt(sum_output_squared));
}

double RequantStats::norm_ratio() const {
  if (sum_source_squared == 0) return sum_output_squared == 0 ? 1 : std::numeric_limits<double>::infinity();
  return std::sqrt(sum_output_squared / sum_source_squared);
}

}  // namespace perigee
