// bf16 to NVFP4: expected values are worked out by hand from ModelOpt's formulas, and the nearest code is
// looked for among all codes instead of being computed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/nvfp4_block.h"

namespace perigee {
namespace {

std::vector<std::byte> bf16_bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = bf16_round(values[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

struct Quantised {
  std::vector<std::byte> nibbles, scales;
  std::uint8_t code(std::size_t i) const {
    const auto pair = std::to_integer<std::uint8_t>(nibbles[i / 2]);
    return i % 2 == 0 ? pair & 15 : pair >> 4;
  }
};

Quantised quantise(const std::vector<float>& values, float scale_2) {
  Quantised result{std::vector<std::byte>(values.size() / 2), std::vector<std::byte>(values.size() / 16)};
  quantise_nvfp4_blocks(bf16_bytes(values), scale_2, result.nibbles, result.scales);
  return result;
}

TEST(Nvfp4Scale, LetsTheLargestValueUseTheLargestCodes) {
  EXPECT_EQ(nvfp4_scale_2(2688.0f), 1.0f);
  EXPECT_EQ(nvfp4_scale_2(5376.0f), 2.0f);
  EXPECT_EQ(nvfp4_scale_2(0.0f), 1.0f);
  EXPECT_GT(nvfp4_scale_2(std::numeric_limits<float>::denorm_min()), 0.0f);
}

TEST(Bf16Largest, SeesEveryValueAndItsSignNot) {
  EXPECT_EQ(bf16_largest(bf16_bytes({1, -3, 2})), 3.0f);
  EXPECT_EQ(bf16_largest({}), 0.0f);
  EXPECT_TRUE(std::isinf(bf16_largest(bf16_bytes({1, -INFINITY}))));
  EXPECT_TRUE(std::isnan(bf16_largest(bf16_bytes({1, NAN, INFINITY}))));
}

TEST(Nvfp4Blocks, HoldTheirOwnValuesExactly) {
  // Scale 2 (largest 12 = 6 * 2), scale_2 1: every value is a code times two.
  const Quantised q = quantise({12, -12, 8, 6, 4, 3, 2, 1, 0, -1, -2, -3, -4, -6, -8, 0}, 1.0f);
  EXPECT_EQ(q.scales[0], std::byte{0x40});  // 2.0
  const std::vector<std::uint8_t> codes = {7, 15, 6, 5, 4, 3, 2, 1, 0, 9, 10, 11, 12, 13, 14, 0};
  for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(q.code(i), codes[i]) << i;
}

TEST(Nvfp4Blocks, RoundTiesToTheEvenCode) {
  std::vector<float> values(16, 0.0f);
  const std::vector<float> ties = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  values[0] = 6;  // scale 1
  for (std::size_t i = 0; i < ties.size(); ++i) values[i + 1] = -ties[i];
  const Quantised q = quantise(values, 1.0f);
  const std::vector<std::uint8_t> even = {0, 2, 2, 4, 4, 6, 6};
  for (std::size_t i = 0; i < even.size(); ++i) EXPECT_EQ(q.code(i + 1), even[i] | 8) << ties[i];
}

TEST(Nvfp4Blocks, OfZerosAndOfTinyValuesHaveAScaleToDivideBy) {
  std::vector<float> values(32, 0.0f);
  values[16] = 1e-6f;
  const Quantised q = quantise(values, 1.0f);
  EXPECT_EQ(q.scales[0], std::byte{0x38});
  EXPECT_EQ(q.scales[1], std::byte{0x01});
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(q.code(i), 0) << i;
}

TEST(Nvfp4Blocks, TakeTheNearestCodeOfRandomValues) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(64 * 16);
  for (float& value : values) value = round_to_bf16(normal(random));
  const float scale_2 = nvfp4_scale_2(bf16_largest(bf16_bytes(values)));
  const Quantised q = quantise(values, scale_2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double unit = double{e4m3_value(std::to_integer<std::uint8_t>(q.scales[i / 16]))} * scale_2;
    double nearest = INFINITY;
    for (std::uint8_t code = 0; code < 16; ++code) {
      nearest = std::min(nearest, std::fabs(values[i] - e2m1_value(code) * unit));
    }
    EXPECT_NEAR(std::fabs(values[i] - e2m1_value(q.code(i)) * unit), nearest, unit * 1e-6) << i;
  }
}

}  // namespace
}  // namespace perigee
