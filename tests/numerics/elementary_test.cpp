// The elementary functions against the C library in long double: the bounds that numerics/elementary.h
// states.
#include "numerics/elementary.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace perigee {
namespace {

using Function = float (*)(float);
using Exact = long double (*)(long double);

double ulps(float found, long double exact) {
  const auto nearest = static_cast<float>(exact);
  int exponent = 0;
  std::frexp(nearest, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(static_cast<long double>(found) - exact)) / ulp;
}

// Every 4,099th float of the range: a prime, so that all mantissas and exponents come up.
double worst_error(Function function, Exact exact, float low, float high) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits < 0x1'0000'0000; bits += 4099) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!(x >= low && x <= high)) continue;
    worst = std::max(worst, ulps(function(x), exact(x)));
  }
  return worst;
}

TEST(Elementary, ExpIsWithinOneUlp) {
  EXPECT_LE(worst_error(
                exact_exp, [](long double x) { return std::exp(x); }, -103.0f, 88.7f),
            1.0);
}

TEST(Elementary, SigmoidIsWithinTwoAndAHalfUlp) {
  const Exact exact = [](long double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(worst_error(exact_sigmoid, exact, -103.0f, 1e30f), 2.5);
}

TEST(Elementary, TanhIsWithinTwoUlp) {
  EXPECT_LE(worst_error(
                exact_tanh, [](long double x) { return std::tanh(x); }, -1e30f, 1e30f),
            2.0);
}

TEST(Elementary, LogIsWithinOneUlp) {
  const Exact exact = [](long double x) { return std::log(x); };
  EXPECT_LE(worst_error(exact_log, exact, 1e-44f, std::numeric_limits<float>::max()), 1.0);
}

TEST(Elementary, KeepsToTheEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exact_exp(-kInfinity), 0.0f);
  EXPECT_EQ(exact_exp(kInfinity), kInfinity);
  EXPECT_EQ(exact_exp(0.0f), 1.0f);
  EXPECT_EQ(exact_sigmoid(-kInfinity), 0.0f);
  EXPECT_EQ(exact_sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(exact_sigmoid(0.0f), 0.5f);
  EXPECT_EQ(exact_tanh(kInfinity), 1.0f);
  EXPECT_EQ(exact_tanh(-kInfinity), -1.0f);
  EXPECT_EQ(exact_tanh(0.0f), 0.0f);
  EXPECT_EQ(exact_tanh(-0.75f), -exact_tanh(0.75f));
  EXPECT_EQ(exact_log(0.0f), -kInfinity);
  EXPECT_EQ(exact_log(1.0f), 0.0f);
  for (const Function function : {exact_exp, exact_sigmoid, exact_tanh, exact_log}) {
    EXPECT_TRUE(std::isnan(function(std::numeric_limits<float>::quiet_NaN())));
  }
  EXPECT_TRUE(std::isnan(exact_log(-1.0f)));
}

}  // namespace
}  // namespace perigee
