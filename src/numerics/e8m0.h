// E8M0, the power-of-two group scale of MXFP4 (docs/formats.md): 2^(byte - 127), no zero, no sign, 255 is
// NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/e2m1.h"

namespace perigee {

inline constexpr int kE8m0Bias = 127;
inline constexpr std::uint8_t kE8m0Nan = 255;

// Byte 0 is 2^-127, a subnormal float, and not zero.
inline float e8m0_value(std::uint8_t byte) {
  if (byte == kE8m0Nan) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, byte - kE8m0Bias);
}

// One MXFP4 element. Exact in float for bytes up to 252; above, large codes overflow to infinity.
inline float mxfp4_value(std::uint8_t code, std::uint8_t byte) {
  return e2m1_value(code) * e8m0_value(byte);
}

}  // namespace perigee
