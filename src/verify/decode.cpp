#include "verify/decode.h"

#include <cmath>
#include <limits>

namespace perigee::verifying {
namespace {

// Moves factors of two of the numerator into the exponent.
Fraction with_odd_numerator(std::uint64_t numerator, int exponent) {
  if (numerator == 0) return {0, 1, 0};
  const int twos = std::countr_zero(numerator);
  return {numerator >> twos, 1, exponent + twos};
}

}  // namespace

double Fraction::value() const {
  return std::ldexp(static_cast<double>(numerator) / static_cast<double>(denominator), exponent);
}

Fraction multiply(const Fraction& a, const Fraction& b) {
  if (a.numerator == 0 || b.numerator == 0) return {0, 1, 0};
  return {a.numerator * b.numerator, a.denominator * b.denominator, a.exponent + b.exponent};
}

int floor_log2(const Fraction& fraction) {
  int shift = std::bit_width(fraction.numerator) - std::bit_width(fraction.denominator);
  // Now numerator / denominator is in (2^(shift-1), 2^(shift+1)).
  const bool below = shift >= 0 ? fraction.numerator < fraction.denominator << shift
                                : fraction.numerator << -shift < fraction.denominator;
  if (below) --shift;
  return shift + fraction.exponent;
}

Fraction e4m3_fraction(std::uint8_t code) {
  const unsigned exponent = (code >> 3) & 15u, mantissa = code & 7u;
  if (exponent == 0) return with_odd_numerator(mantissa, -9);
  return with_odd_numerator(8 + mantissa, static_cast<int>(exponent) - 10);
}

double e4m3_value(std::uint8_t code) {
  if (e4m3_is_nan(code)) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude = e4m3_fraction(code).value();
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

bool f32_fraction(float value, Fraction& fraction) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = (bits >> 23) & 0xFF, mantissa = bits & 0x7FFFFF;
  if ((bits >> 31) != 0 || exponent == 0xFF || (exponent == 0 && mantissa == 0)) return false;
  fraction = exponent == 0 ? with_odd_numerator(mantissa, -149)
                           : with_odd_numerator(mantissa | 0x800000, static_cast<int>(exponent) - 150);
  return true;
}

Fraction ScaleRule::block_scale(std::uint8_t code) const {
  return is_mxfp4() ? e8m0_fraction(code) : multiply(e4m3_fraction(code), tensor_factor);
}

}  // namespace perigee::verifying
