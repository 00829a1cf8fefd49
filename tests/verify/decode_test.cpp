// The verifier's arithmetic against the definitions of the formats, exhaustively, and its fractions against
// plain doubles.
#include "verify/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace perigee::verifying {
namespace {

TEST(VerifyDecode, E2M1HasTheValuesOfTheStandard) {
  const double values[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (unsigned code = 0; code < 16; ++code) EXPECT_EQ(e2m1_doubled(code) / 2.0, values[code]) << code;
}

TEST(VerifyDecode, E4M3HasTheLandmarksOfTheStandard) {
  EXPECT_EQ(e4m3_value(0x7E), 448);
  EXPECT_EQ(e4m3_value(0x78), 256);
  EXPECT_EQ(e4m3_value(0x38), 1);
  EXPECT_EQ(e4m3_value(0xB8), -1);
  EXPECT_EQ(e4m3_value(0x08), 0x1p-6);
  EXPECT_EQ(e4m3_value(0x07), 7 * 0x1p-9);
  EXPECT_EQ(e4m3_value(0x01), 0x1p-9);
  EXPECT_EQ(e4m3_value(0x00), 0);
  EXPECT_TRUE(std::isnan(e4m3_value(0x7F)));
  EXPECT_TRUE(std::isnan(e4m3_value(0xFF)));
}

TEST(VerifyDecode, E4M3RisesInEqualStepsWithinEachBinade) {
  for (unsigned code = 1; code < 0x7F; ++code) {
    const double step =
        e4m3_value(static_cast<std::uint8_t>(code)) - e4m3_value(static_cast<std::uint8_t>(code - 1));
    EXPECT_EQ(step, std::ldexp(1.0, std::max(1, static_cast<int>(code - 1) >> 3) - 10)) << code;
  }
}

TEST(VerifyDecode, OnlyFiniteCodesWithoutSignAreScales) {
  for (unsigned code = 0; code < 256; ++code) {
    EXPECT_EQ(is_valid_e4m3_scale(static_cast<std::uint8_t>(code)), code <= 0x7E) << code;
    EXPECT_EQ(is_valid_e8m0(static_cast<std::uint8_t>(code)), code != 255) << code;
  }
}

TEST(VerifyDecode, E8M0IsAPowerOfTwo) {
  EXPECT_EQ(e8m0_fraction(0).value(), 0x1p-127);
  EXPECT_EQ(e8m0_fraction(127).value(), 1);
  EXPECT_EQ(e8m0_fraction(254).value(), 0x1p127);
}

TEST(VerifyDecode, FractionsOfFloatsAreExact) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    Fraction fraction;
    const bool usable = f32_fraction(value, fraction);
    EXPECT_EQ(usable, value > 0 && std::isfinite(value)) << value;
    if (!usable) continue;
    EXPECT_EQ(fraction.value(), static_cast<double>(value));
    EXPECT_EQ(fraction.numerator % 2, 1u);
    EXPECT_EQ(floor_log2(fraction), std::ilogb(value));
    EXPECT_EQ(floor_log2(fraction.inverse()), std::ilogb(1 / static_cast<double>(value)));
  }
}

TEST(VerifyDecode, SubnormalAndLargestFloats) {
  for (const float value : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::max(), 1.0f}) {
    Fraction fraction;
    ASSERT_TRUE(f32_fraction(value, fraction));
    EXPECT_EQ(fraction.value(), static_cast<double>(value));
  }
  Fraction fraction;
  EXPECT_FALSE(f32_fraction(-1.0f, fraction));
  EXPECT_FALSE(f32_fraction(0.0f, fraction));
}

TEST(VerifyDecode, AFractionTimesItsInverseIsOne) {
  Fraction fraction;
  ASSERT_TRUE(f32_fraction(2688.0f / 1.5f, fraction));
  EXPECT_FALSE(fraction.is_power_of_two());
  const Fraction one = multiply(fraction, fraction.inverse());
  EXPECT_EQ(one, (Fraction{1, 1, 0}));
  EXPECT_EQ(one.value(), 1);
  EXPECT_EQ(multiply(fraction, Fraction{0, 1, 0}), (Fraction{0, 1, 5}));
}

TEST(VerifyDecode, Bf16IsTheUpperHalfOfAFloat) {
  const std::uint16_t bits[3] = {0x3F80, 0xC0A0, 0x0001};
  const auto* bytes = reinterpret_cast<const std::byte*>(bits);
  EXPECT_EQ(bf16_at(bytes), 1);
  EXPECT_EQ(bf16_at(bytes + 2), -5);
  EXPECT_EQ(bf16_at(bytes + 4), 0x1p-133);
}

TEST(VerifyDecode, BlockScalesFollowTheLayout) {
  const Fraction two_to_the_14{1, 1, 14};
  const ScaleRule mxfp4{ExpertFormat::kMxfp4, {}};
  const ScaleRule modelopt{ExpertFormat::kNvfp4ModelOpt, two_to_the_14.inverse()};
  // Worked example of docs/formats.md: K = -6, so byte 121 becomes code 0x78 and byte 104 code 0x01.
  EXPECT_EQ(mxfp4.block_scale(121), modelopt.block_scale(0x78));
  EXPECT_EQ(mxfp4.block_scale(113), modelopt.block_scale(0x38));
  EXPECT_EQ(mxfp4.block_scale(104), modelopt.block_scale(0x01));
  EXPECT_FALSE(mxfp4.block_scale(103) == modelopt.block_scale(0x01));
}

}  // namespace
}  // namespace perigee::verifying
