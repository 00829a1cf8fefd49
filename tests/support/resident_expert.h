// One expert of a model that is all in memory. For tests only.
#pragma once

#include <array>

#include "model/weights.h"

namespace perigee::test {

inline ExpertWeights resident_expert(const LoadedModel& model, std::uint64_t layer, std::uint32_t expert) {
  const std::array<std::uint32_t, 1> wanted = {expert};
  return model.experts().acquire(layer, wanted)->next()->weights;
}

}  // namespace perigee::test
