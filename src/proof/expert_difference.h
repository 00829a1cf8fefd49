// Whether two experts have the same weights, in whichever form each is stored: values are compared, not
// bytes, because a converter may choose another tensor scale and other block scales for the same numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "experts/expert_source.h"

namespace perigee {

struct ExpertDifference {
  std::string projection;  // "w1", "w2", "w3"
  std::size_t row = 0;
  std::size_t column = 0;
  double expected = 0;
  double found = 0;
};

// The first weight, by w1, w2, w3 and place, that differs. The experts have the same sizes.
std::optional<ExpertDifference> first_difference(const ExpertWeights& expected, const ExpertWeights& found);

}  // namespace perigee
