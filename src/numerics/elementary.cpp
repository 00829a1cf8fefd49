#include "numerics/elementary.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace perigee {
namespace {

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2High = 0x1.62e400p-1f;  // 16 bits, so that n * kLn2High is exact for |n| < 256
constexpr float kLn2Low = 0x1.7f7d1cp-20f;  // ln 2 - kLn2High

// Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even, on every instruction set.
constexpr float kRoundShift = 0x1.8p23f;

float power_of_two(std::int32_t exponent) {  // -126 … 127
  return std::bit_cast<float>((exponent + 127) << 23);
}

// Minimax polynomials, highest coefficient first, by fused multiply-adds.
template <std::size_t N>
float polynomial(const float (&coefficients)[N], float x) {
  float y = coefficients[0];
  for (std::size_t i = 1; i < N; ++i) y = std::fma(y, x, coefficients[i]);
  return y;
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; error of e^r 4.8e-11.
constexpr float kExpTail[] = {1.991789177e-04f, 1.394613297e-03f, 8.333264850e-03f,
                              4.166626930e-02f, 1.666666716e-01f, 5.000000000e-01f};

// (tanh(x) - x) / x^3 in x^2, |x| < 0.625; error 1.5e-10.
constexpr float kTanhTail[] = {2.147536958e-03f,  -8.182673715e-03f, 2.170296758e-02f,
                               -5.394720286e-02f, 1.333321035e-01f,  -3.333333135e-01f};

// (log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f < sqrt(2); error 7.3e-10.
constexpr float kLogTail[] = {6.915368140e-02f,  -1.178980768e-01f, 1.187297627e-01f,
                              -1.238434836e-01f, 1.421865821e-01f,  -1.666925102e-01f,
                              2.000222653e-01f,  -2.499998659e-01f, 3.333331048e-01f};

}  // namespace

float exact_exp(float x) {
  // Beyond these the result is infinite or zero; inside them 2^n below is made of two normal powers.
  if (x > 88.8f) return std::numeric_limits<float>::infinity();
  if (x < -104.0f) return 0.0f;
  if (std::isnan(x)) return x;
  const float n = std::fma(x, kLog2E, kRoundShift) - kRoundShift;
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  const float power = std::fma(r * r, polynomial(kExpTail, r), r) + 1.0f;
  const auto exponent = static_cast<std::int32_t>(n);
  const std::int32_t half = exponent / 2;  // the first product is exact, the second rounds once
  return power * power_of_two(half) * power_of_two(exponent - half);
}

float exact_sigmoid(float x) {
  const float e = exact_exp(-std::fabs(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

float exact_tanh(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude < 0.625f) {
    const float square = x * x;
    return std::fma(x * square, polynomial(kTanhTail, square), x);
  }
  const float y = 1.0f - 2.0f / (exact_exp(2.0f * magnitude) + 1.0f);
  return std::copysign(y, x);
}

float exact_log(float x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<float>::infinity();
  if (std::isinf(x)) return x;
  std::int32_t exponent = 0;
  if (x < 0x1p-126f) {
    x *= 0x1p23f;
    exponent = -23;
  }
  // The mantissa is taken to [sqrt(1/2), sqrt(2)), where the sum below cannot cancel.
  constexpr std::int32_t kSqrtHalf = 0x3F3504F3;
  const std::int32_t bits = std::bit_cast<std::int32_t>(x) - kSqrtHalf;
  exponent += bits >> 23;
  const float f = std::bit_cast<float>((bits & 0x7FFFFF) + kSqrtHalf) - 1.0f;
  const float square = f * f;
  const auto n = static_cast<float>(exponent);
  float tail = f * square * polynomial(kLogTail, f);
  tail = std::fma(n, kLn2Low, tail);
  tail = std::fma(-0.5f, square, tail);
  return std::fma(n, kLn2High, f + tail);
}

}  // namespace perigee
