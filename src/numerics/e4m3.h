// E4M3 "FN" (finite and NaN, no infinity), bias 7: NVFP4 block scales and FP8 weights (docs/formats.md).
// Scalar definitions without tables; the fast forms are in the kernels and are tested against these.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace perigee {

inline constexpr float kE4m3Max = 448.0f;   // 0x7E
inline constexpr float kE4m3Min = 0x1p-9f;  // 0x01, the smallest above zero
inline constexpr std::uint8_t kE4m3MinCode = 0x01;
inline constexpr std::uint8_t kE4m3MaxCode = 0x7E;
inline constexpr std::uint8_t kE4m3One = 0x38;
inline constexpr std::uint8_t kE4m3Nan = 0x7F;
inline constexpr std::uint8_t kE4m3SignBit = 0x80;

inline float e4m3_value(std::uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if (exponent == 15 && mantissa == 7) magnitude = std::numeric_limits<float>::quiet_NaN();
  return (code & kE4m3SignBit) != 0 ? -magnitude : magnitude;
}

// Nearest value, ties to the even code, saturating at +-448 (infinities too). NaN gives 0x7F or 0xFF; nothing
// else does.
inline std::uint8_t e4m3_encode(float value) {
  const std::uint8_t sign = std::signbit(value) ? kE4m3SignBit : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(magnitude)) return sign | kE4m3Nan;
  if (magnitude >= kE4m3Max) return sign | kE4m3MaxCode;
  // Below 2^-6 the step is 2^-9. Rounding up past the largest mantissa carries into the exponent by itself,
  // because codes of neighbouring values are neighbours.
  const int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  const int code = steps + 8 * (exponent + 6);
  return static_cast<std::uint8_t>(sign | code);
}

}  // namespace perigee
