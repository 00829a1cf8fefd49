// The verifier's own arithmetic: what the bits of E2M1, E4M3, E8M0, bf16 and F32 mean, as exact fractions or
// doubles. Integers and shifts only; on purpose no table and nothing from numerics/, which is what gets
// checked here.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "checkpoint/config.h"

namespace perigee::verifying {

// numerator / denominator * 2^exponent with odd terms (numerator 0 for zero), so that equal values of
// different origin compare by one multiplication. Terms stay below 2^28: a 4-bit mantissa times a 24-bit one.
struct Fraction {
  std::uint64_t numerator = 1;
  std::uint64_t denominator = 1;
  int exponent = 0;

  double value() const;
  Fraction inverse() const { return {denominator, numerator, -exponent}; }
  bool is_power_of_two() const { return numerator == 1 && denominator == 1; }
  friend bool operator==(const Fraction& a, const Fraction& b) {
    if (a.numerator == 0 || b.numerator == 0) return a.numerator == b.numerator;
    return a.exponent == b.exponent && a.numerator * b.denominator == b.numerator * a.denominator;
  }
};
Fraction multiply(const Fraction& a, const Fraction& b);
// floor(log2(value)) of a fraction that is not zero.
int floor_log2(const Fraction& fraction);

// Twice the value of an E2M1 code: s eem, bias 1, so 2 * magnitude is 0, 1, 2, 3, 4, 6, 8, 12.
constexpr int e2m1_doubled(unsigned code) {
  const unsigned exponent = (code >> 1) & 3, mantissa = code & 1;
  const int magnitude = static_cast<int>(exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1));
  return (code & 8) != 0 ? -magnitude : magnitude;
}

// E4M3 (FN): s eeee mmm, bias 7, no infinity, NaN is s1111111. A block scale must be finite and without sign.
constexpr bool e4m3_is_nan(std::uint8_t code) {
  return (code & 0x7F) == 0x7F;
}
constexpr bool is_valid_e4m3_scale(std::uint8_t code) {
  return code < 0x7F;
}
Fraction e4m3_fraction(std::uint8_t code);  // of the magnitude; not for NaN
double e4m3_value(std::uint8_t code);       // with sign; NaN for NaN

// E8M0: 2^(byte - 127), 255 is NaN.
constexpr bool is_valid_e8m0(std::uint8_t byte) {
  return byte != 0xFF;
}
constexpr Fraction e8m0_fraction(std::uint8_t byte) {
  return {1, 1, static_cast<int>(byte) - 127};
}

// A positive finite F32; false for anything else.
bool f32_fraction(float value, Fraction& fraction);

inline float f32_at(const std::byte* bytes) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return std::bit_cast<float>(bits);
}
inline double bf16_at(const std::byte* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

// How a format makes a block's scale: block scale code times a tensor-wide factor.
struct ScaleRule {
  ExpertFormat format = ExpertFormat::kMxfp4;
  Fraction tensor_factor;  // 1, weight_scale_2 or 1 / weight_global_scale

  bool is_mxfp4() const { return format == ExpertFormat::kMxfp4; }
  unsigned block_elements() const { return is_mxfp4() ? 32 : 16; }
  bool is_valid(std::uint8_t code) const {
    return is_mxfp4() ? is_valid_e8m0(code) : is_valid_e4m3_scale(code);
  }
  Fraction block_scale(std::uint8_t code) const;  // only if is_valid(code)
};

}  // namespace perigee::verifying
