// The mini model in memory, as tests of the engine use it. For tests only.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/reference/reference_ops.h"
#include "model/forward.h"
#include "support/mini_model.h"

namespace perigee::test {

inline const LoadedModel& mini_weights() {
  static const LoadedModel loaded = LoadedModel::load(mini_model(), {});
  return loaded;
}

// Ids without a pattern, the same in every run.
inline std::vector<std::uint32_t> mini_ids(std::size_t count, std::uint32_t start) {
  std::vector<std::uint32_t> ids;
  std::uint32_t value = start;
  for (std::size_t i = 0; i < count; ++i) {
    value = value * 1664525u + 1013904223u;
    ids.push_back((value >> 16) % 256);
  }
  return ids;
}

}  // namespace perigee::test
