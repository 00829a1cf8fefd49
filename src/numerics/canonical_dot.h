// The one order in which products are summed (docs/numerics.md). 32 lanes; lane l owns elements
// 256 b + 8 l … + 7 of each block b of 256, and a row's tail is padded with zeros. Per block and lane:
//   p = 0;  for s = 0…3:  p = fma(w[8l+4+s], x[8l+4+s], p);  p = fma(w[8l+s], x[8l+s], p);
//   lane = fma(p, scale, lane)
// and in the end the lanes are added as a tree: l with l+16, then 8, 4, 2, 1. `scale` is the block scale of
// the weights (MXFP4: of 32, NVFP4: of 16, FP8: of a tile; 1 for plain weights), and a tensor's global scale
// multiplies the finished sum. The order depends on the length alone: never on threads, batch or instruction
// set.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace perigee {

inline constexpr std::size_t kDotLanes = 32;
inline constexpr std::size_t kDotLaneElements = 8;
inline constexpr std::size_t kDotBlock = kDotLanes * kDotLaneElements;

// Sum of the lanes in the canonical tree.
inline float sum_of_lanes(std::array<float, kDotLanes> lanes) {
  for (std::size_t half = kDotLanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// w(i) and scale(i) give the weight and the scale of the lane that owns element i, for i < length; x(i) the
// other factor. The definition that every fast form is tested against.
template <typename Weight, typename Scale, typename Value>
float canonical_dot(std::size_t length, Weight&& w, Scale&& scale, Value&& x) {
  std::array<float, kDotLanes> lanes{};
  for (std::size_t block = 0; block < length; block += kDotBlock) {
    for (std::size_t l = 0; l < kDotLanes; ++l) {
      const std::size_t first = block + l * kDotLaneElements;
      if (first >= length) break;  // zeros add nothing: fma(0, s, lane) == lane
      float p = 0;
      for (std::size_t s = 0; s < 4; ++s) {
        for (const std::size_t i : {first + 4 + s, first + s}) {
          if (i < length) p = std::fma(w(i), x(i), p);
        }
      }
      lanes[l] = std::fma(p, scale(first), lanes[l]);
    }
  }
  return sum_of_lanes(lanes);
}

inline float canonical_dot(const float* a, const float* b, std::size_t length) {
  return canonical_dot(
      length, [a](std::size_t i) { return a[i]; }, [](std::size_t) { return 1.0f; },
      [b](std::size_t i) { return b[i]; });
}

}  // namespace perigee
