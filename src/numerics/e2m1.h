// E2M1, the 4-bit element of MXFP4 and NVFP4 (docs/formats.md): sign, two exponent bits of bias 1, one
// mantissa bit. Scalar definitions without tables; the fast forms are in the kernels and are tested against
// these.
#pragma once

#include <cmath>
#include <cstdint>

namespace perigee {

inline constexpr std::uint8_t kE2m1SignBit = 8;
inline constexpr float kE2m1Max = 6.0f;

// code: 0..15. The only subnormal is 0.5; code 8 is -0.
inline float e2m1_value(std::uint8_t code) {
  const int exponent = (code >> 1) & 3;
  const int mantissa = code & 1;
  const float magnitude = exponent == 0
                              ? 0.5f * static_cast<float>(mantissa)
                              : std::ldexp(1.0f + 0.5f * static_cast<float>(mantissa), exponent - 1);
  return (code & kE2m1SignBit) != 0 ? -magnitude : magnitude;
}

// Nearest value, ties to the even code, saturating at 6; the sign bit is that of the argument, so -0.1 gives
// code 8. A NaN has no code; the result for one is 7 or 15.
inline std::uint8_t e2m1_encode(float value) {
  const float magnitude = std::fabs(value);
  std::uint8_t code = 7;
  if (magnitude <= 0.25f) {
    code = 0;
  } else if (magnitude < 0.75f) {
    code = 1;
  } else if (magnitude <= 1.25f) {
    code = 2;
  } else if (magnitude < 1.75f) {
    code = 3;
  } else if (magnitude <= 2.5f) {
    code = 4;
  } else if (magnitude < 3.5f) {
    code = 5;
  } else if (magnitude <= 5.0f) {
    code = 6;
  }
  return std::signbit(value) ? code | kE2m1SignBit : code;
}

}  // namespace perigee
