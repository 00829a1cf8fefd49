// The scalar formats against values from their definitions: nearest values are found by search over all codes
// in double arithmetic, not by the encoders' own formulas.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"

namespace perigee {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();

// The code whose value is nearest; of two equally near ones, the even code. Codes are ordered by value.
std::uint8_t nearest_code(float magnitude, const std::vector<double>& values) {
  std::size_t best = 0;
  for (std::size_t code = 1; code < values.size(); ++code) {
    const double here = std::fabs(static_cast<double>(magnitude) - values[code]);
    const double there = std::fabs(static_cast<double>(magnitude) - values[best]);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(best);
}

// Every value, every midpoint between neighbours, and the floats next to both.
std::vector<float> critical_points(const std::vector<double>& values) {
  std::vector<float> points;
  for (std::size_t code = 0; code + 1 < values.size(); ++code) {
    for (const double exact : {values[code], (values[code] + values[code + 1]) / 2}) {
      const auto point = static_cast<float>(exact);
      EXPECT_EQ(static_cast<double>(point), exact);
      points.push_back(point);
      points.push_back(std::nextafter(point, kInfinity));
      if (point > 0) points.push_back(std::nextafter(point, 0.0f));
    }
  }
  points.push_back(static_cast<float>(values.back()));
  return points;
}

std::vector<double> e2m1_values() {
  return {0, 0.5, 1, 1.5, 2, 3, 4, 6};
}

// From the format's definition: bias 7, subnormals in steps of 2^-9, the last mantissa of the last exponent
// is NaN.
std::vector<double> e4m3_values() {
  std::vector<double> values;
  for (int mantissa = 0; mantissa < 8; ++mantissa) values.push_back(mantissa * 0x1p-9);
  for (int exponent = 1; exponent < 16; ++exponent) {
    for (int mantissa = 0; mantissa < 8; ++mantissa)
      values.push_back((1 + mantissa / 8.0) * std::pow(2.0, exponent - 7));
  }
  values.pop_back();
  return values;
}

TEST(E2m1, HasTheValuesOfTheFormat) {
  const std::vector<double> values = e2m1_values();
  for (std::uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1_value(code), values[code]);
    EXPECT_EQ(e2m1_value(code | 8), -values[code]);
  }
  EXPECT_TRUE(std::signbit(e2m1_value(8)));
  EXPECT_FALSE(std::signbit(e2m1_value(0)));
}

TEST(E2m1, EncodesEveryCodeBackToItself) {
  for (std::uint8_t code = 0; code < 16; ++code) EXPECT_EQ(e2m1_encode(e2m1_value(code)), code);
}

TEST(E2m1, RoundsToNearestWithTiesToTheEvenCode) {
  const std::vector<double> values = e2m1_values();
  for (const float point : critical_points(values)) {
    EXPECT_EQ(e2m1_encode(point), nearest_code(point, values)) << point;
    EXPECT_EQ(e2m1_encode(-point), nearest_code(point, values) | 8) << -point;
  }
  // The table of docs/formats.md.
  const float ties[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float results[] = {0, 1, 1, 2, 2, 4, 4};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(e2m1_value(e2m1_encode(ties[i])), results[i]) << ties[i];
}

TEST(E2m1, SaturatesAtSix) {
  for (const float large : {6.0f, 6.5f, 1e30f, kInfinity}) {
    EXPECT_EQ(e2m1_encode(large), 7);
    EXPECT_EQ(e2m1_encode(-large), 15);
  }
}

TEST(E2m1, KeepsTheSignOfWhatRoundsToZero) {
  EXPECT_EQ(e2m1_encode(-0.0f), 8);
  EXPECT_EQ(e2m1_encode(-1e-40f), 8);
  EXPECT_EQ(e2m1_encode(1e-40f), 0);
}

TEST(E4m3, HasTheValuesOfTheFormat) {
  const std::vector<double> values = e4m3_values();
  ASSERT_EQ(values.size(), 127u);
  EXPECT_EQ(values.back(), 448);
  for (std::size_t code = 0; code < values.size(); ++code) {
    EXPECT_EQ(e4m3_value(static_cast<std::uint8_t>(code)), values[code]);
    EXPECT_EQ(e4m3_value(static_cast<std::uint8_t>(code | 0x80)), -values[code]);
  }
  EXPECT_TRUE(std::isnan(e4m3_value(0x7F)));
  EXPECT_TRUE(std::isnan(e4m3_value(0xFF)));
}

TEST(E4m3, EncodesEveryCodeBackToItself) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(e4m3_encode(e4m3_value(static_cast<std::uint8_t>(code))), code);
  }
}

TEST(E4m3, RoundsToNearestWithTiesToTheEvenCode) {
  const std::vector<double> values = e4m3_values();
  for (const float point : critical_points(values)) {
    EXPECT_EQ(e4m3_encode(point), nearest_code(point, values)) << point;
    EXPECT_EQ(e4m3_encode(-point), nearest_code(point, values) | 0x80) << -point;
  }
}

TEST(E4m3, RoundsRandomFloatsToNearest) {
  const std::vector<double> values = e4m3_values();
  std::mt19937 random(1);
  std::uniform_int_distribution<std::uint32_t> bits(std::bit_cast<std::uint32_t>(0x1p-12f),
                                                    std::bit_cast<std::uint32_t>(500.0f));
  for (int i = 0; i < 20000; ++i) {
    const auto point = std::bit_cast<float>(bits(random));
    ASSERT_EQ(e4m3_encode(point), nearest_code(point, values)) << point;
  }
}

TEST(E4m3, SaturatesAndNeverMakesNanOfAFiniteNumber) {
  for (const float large : {448.0f, 449.0f, 463.0f, 464.0f, 465.0f, 480.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(e4m3_encode(large), 0x7E);
    EXPECT_EQ(e4m3_encode(-large), 0xFE);
  }
  EXPECT_EQ(e4m3_encode(kQuietNan) & 0x7F, 0x7F);
  for (const float small : {0.0f, 0x1p-149f, 0x1p-126f, 0x1p-10f}) EXPECT_EQ(e4m3_encode(small), 0);
  EXPECT_EQ(e4m3_encode(std::nextafter(0x1p-10f, 1.0f)), 1);
}

TEST(E8m0, IsTwoToTheByteMinus127) {
  for (int byte = 0; byte < 255; ++byte) {
    EXPECT_EQ(static_cast<double>(e8m0_value(static_cast<std::uint8_t>(byte))), std::pow(2.0, byte - 127))
        << byte;
  }
  EXPECT_EQ(e8m0_value(0), 0x1p-127f);
  EXPECT_TRUE(std::isnan(e8m0_value(255)));
}

TEST(E8m0, EveryElementUpToByte252IsExactInFloat) {
  for (int byte = 0; byte <= 252; ++byte) {
    for (std::uint8_t code = 0; code < 16; ++code) {
      const double exact = static_cast<double>(e2m1_value(code)) * std::pow(2.0, byte - 127);
      ASSERT_EQ(static_cast<double>(mxfp4_value(code, static_cast<std::uint8_t>(byte))), exact);
    }
  }
  EXPECT_TRUE(std::isinf(mxfp4_value(7, 253)));
}

TEST(Bf16, EveryFiniteValueRoundsToItself) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_value(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(bf16_round(value), bits);
  }
}

// Nearest of the two neighbours in double arithmetic; the upper neighbour of the largest finite value counts
// as 2^128.
std::uint16_t nearest_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto below = static_cast<std::uint16_t>(bits >> 16);
  const auto above = static_cast<std::uint16_t>(below + 1);
  const auto magnitude = [](std::uint16_t half) {
    const float as_float = std::fabs(bf16_value(half));
    return std::isinf(as_float) ? 0x1p128 : static_cast<double>(as_float);
  };
  const double exact = std::fabs(static_cast<double>(value));
  const double down = exact - magnitude(below);
  const double up = magnitude(above) - exact;
  if (down != up) return down < up ? below : above;
  return below % 2 == 0 ? below : above;
}

TEST(Bf16, RoundsRandomFloatsToNearestEven) {
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(bf16_round(value), nearest_bf16(value)) << value;
  }
}

TEST(Bf16, RoundsTiesAndTheirNeighboursInEveryBinade) {
  for (std::uint32_t half = 0; half < 0x7F80; ++half) {
    for (const std::uint32_t low : {0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const auto value = std::bit_cast<float>(half << 16 | low);
      ASSERT_EQ(bf16_round(value), nearest_bf16(value)) << half << " " << low;
      ASSERT_EQ(bf16_round(-value), nearest_bf16(value) | 0x8000) << half << " " << low;
    }
  }
}

TEST(Bf16, KeepsInfinityAndMakesOneNan) {
  EXPECT_EQ(bf16_round(kInfinity), 0x7F80);
  EXPECT_EQ(bf16_round(-kInfinity), 0xFF80);
  EXPECT_EQ(bf16_round(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(bf16_round(kQuietNan), 0x7FC0);
  EXPECT_EQ(bf16_round(std::bit_cast<float>(0x7F800001u)), 0x7FC0);
  EXPECT_EQ(bf16_round(std::bit_cast<float>(0xFFFFFFFFu)), 0x7FC0);
}

}  // namespace
}  // namespace perigee
