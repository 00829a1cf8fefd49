#include "numerics/lossless_cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/golden_experts.h"
#include "numerics/kernels.h"

namespace perigee {
namespace {

TEST(CastTable, HoldsTheExactScaleForEveryByteAndExponentInsideTheWindow) {
  for (int top = -127; top <= 127; ++top) {
    const CastTable table = make_cast_table(top);
    EXPECT_EQ(table.max_exponent, top);
    for (int byte = 0; byte < 255; ++byte) {
      const int distance = top - (byte - 127);
      const double scale = static_cast<double>(e4m3_value(table.code[static_cast<std::size_t>(byte)]));
      if (distance >= 0 && distance <= kExactSpan) {
        ASSERT_EQ(scale * std::pow(2.0, top - 8), std::pow(2.0, byte - 127)) << top << " " << byte;
      } else {
        ASSERT_EQ(scale, distance < 0 ? 256.0 : 0x1p-9) << top << " " << byte;
      }
    }
  }
}

TEST(CastTable, HasTheCodesOfTheFormatsDocument) {
  const CastTable table = make_cast_table(-6);
  const std::pair<int, int> expected[] = {{121, 0x78}, {120, 0x70}, {119, 0x68}, {113, 0x38}, {107, 0x08},
                                          {106, 0x04}, {105, 0x02}, {104, 0x01}, {103, 0x01}, {122, 0x78}};
  for (const auto& [byte, code] : expected)
    EXPECT_EQ(table.code[static_cast<std::size_t>(byte)], code) << byte;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(cast_scale_2(-6)), 0x38800000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(cast_global_scale(-6)), 0x46800000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(cast_scale_2(-7)), 0x38000000u);
}

TEST(CastScale, IsAPowerOfTwoAndItsReciprocalForEveryExponent) {
  for (int top = kMinMaxExponent; top <= 127; ++top) {
    EXPECT_EQ(static_cast<double>(cast_scale_2(top)), std::pow(2.0, top - 8));
    EXPECT_EQ(static_cast<double>(cast_global_scale(top)), std::pow(2.0, 8 - top));
    EXPECT_TRUE(std::isnormal(cast_scale_2(top)) && std::isnormal(cast_global_scale(top)));
  }
  EXPECT_THROW(cast_scale_2(kMinMaxExponent - 1), Error);
  EXPECT_THROW(cast_global_scale(128), Error);
}

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 256);
  return bytes;
}

TEST(ExpandScales, EveryVariantEqualsTheReferenceAtEveryLength) {
  CastTable table = make_cast_table(3);
  std::iota(table.code.begin(), table.code.end(), std::uint8_t{17});  // every entry distinct
  for (const Kernels* kernels : available_kernels()) {
    for (std::size_t count = 0; count < 300; ++count) {
      const std::vector<std::byte> scales = random_bytes(count, static_cast<unsigned>(count));
      std::vector<std::byte> expected(2 * count);
      std::vector<std::byte> out(2 * count);
      expand_scales_reference(scales, table, expected);
      expand_scales(scales, table, out, *kernels);
      ASSERT_EQ(out, expected) << kernels->name << " " << count;
    }
  }
}

TEST(ExpandScales, EveryVariantLooksUpEveryByteUnderEveryExponent) {
  std::vector<std::byte> scales(256);
  for (std::size_t byte = 0; byte < 256; ++byte) scales[byte] = static_cast<std::byte>(byte);
  for (int top = -127; top <= 127; ++top) {
    const CastTable table = make_cast_table(top);
    for (const Kernels* kernels : available_kernels()) {
      std::vector<std::byte> out(512);
      expand_scales(scales, table, out, *kernels);
      for (std::size_t i = 0; i < 512; ++i) {
        ASSERT_EQ(std::to_integer<int>(out[i]), table.code[i / 2]) << kernels->name << " " << top << " " << i;
      }
    }
  }
}

TEST(ContractScales, BringsBackEveryByteInsideTheWindow) {
  for (int top = -127; top <= 127; ++top) {
    const CastTable table = make_cast_table(top);
    std::vector<std::byte> scales;
    for (int byte = std::max(0, top - kExactSpan + 127); byte <= top + 127; ++byte) {
      scales.push_back(static_cast<std::byte>(byte));
    }
    std::vector<std::byte> blocks(2 * scales.size());
    std::vector<std::byte> back(scales.size());
    expand_scales(scales, table, blocks);
    ASSERT_EQ(contract_scales(blocks, top - 8, back), -1) << top;
    ASSERT_EQ(back, scales) << top;
  }
}

TEST(ContractScales, RefusesEveryCodeThatIsNoPowerOfTwo) {
  int accepted = 0;
  for (int code = 0; code < 256; ++code) {
    const std::vector<std::byte> blocks = {std::byte{0x38}, std::byte{0x38}, static_cast<std::byte>(code),
                                           static_cast<std::byte>(code)};
    std::vector<std::byte> out(2);
    const float value = e4m3_value(static_cast<std::uint8_t>(code));
    int exponent = 0;
    const bool power_of_two = value > 0 && std::frexp(value, &exponent) == 0.5f;
    EXPECT_EQ(contract_scales(blocks, 0, out), power_of_two ? -1 : 1) << code;
    accepted += power_of_two;
  }
  EXPECT_EQ(accepted, 18);
}

TEST(ContractScales, RefusesUnequalHalvesAndExponentsOutsideE8m0) {
  std::vector<std::byte> out(1);
  EXPECT_EQ(contract_scales(std::vector<std::byte>{std::byte{0x38}, std::byte{0x40}}, 0, out), 0);
  const std::vector<std::byte> ones = {std::byte{0x38}, std::byte{0x38}};
  EXPECT_EQ(contract_scales(ones, 127, out), -1);
  EXPECT_EQ(std::to_integer<int>(out[0]), 254);
  EXPECT_EQ(contract_scales(ones, 128, out), 0);
  EXPECT_EQ(contract_scales(ones, -127, out), -1);
  EXPECT_EQ(std::to_integer<int>(out[0]), 0);
  EXPECT_EQ(contract_scales(ones, -128, out), 0);
}

TEST(CastSizes, AreChecked) {
  std::vector<std::byte> out(3);
  EXPECT_THROW(expand_scales(std::vector<std::byte>(2), make_cast_table(0), out), Error);
  EXPECT_THROW(expand_scales_reference(std::vector<std::byte>(1), make_cast_table(0), out), Error);
  EXPECT_THROW(contract_scales(std::vector<std::byte>(4), 0, out), Error);
}

// Goldens of compressed-tensors: nibbles verbatim, K over active groups.
void expect_cast_equals(const std::string& source, const std::string& golden_folder) {
  const test::MiniTensors golden =
      test::read_safetensors(test::convert_data() / golden_folder / "experts.safetensors");
  std::size_t compared = 0;
  for (const test::ExpertSet& set : test::read_expert_sets(source)) {
    const int top = set.scan.any_active() ? set.scan.max_exponent() : 0;
    const CastTable table = make_cast_table(top);
    for (const test::ExpertModule& module : set.modules) {
      std::vector<std::byte> blocks(2 * module.scales.size());
      expand_scales(module.scales, table, blocks);
      EXPECT_EQ(blocks, golden.at(module.name + ".weight_scale").data) << module.name;
      EXPECT_EQ(module.packed, golden.at(module.name + ".weight_packed").data) << module.name;
      EXPECT_EQ(golden.at(module.name + ".weight_global_scale").as<float>().at(0), cast_global_scale(top));
      ++compared;
    }
  }
  EXPECT_GE(compared, 18u);
}

TEST(LosslessCast, EqualsCompressedTensors) {
  expect_cast_equals("source", "cast_ct");
}
TEST(LosslessCast, EqualsCompressedTensorsWithZeroBlocksOnTop) {
  expect_cast_equals("source_corner", "corner_ct");
}

TEST(LosslessCast, EqualsModelOptApartFromNegativeZero) {
  const test::MiniTensors golden =
      test::read_safetensors(test::convert_data() / "cast_modelopt" / "experts.safetensors");
  for (const test::ExpertSet& set : test::read_expert_sets("source")) {
    const CastTable table = make_cast_table(set.scan.max_exponent());
    for (const test::ExpertModule& module : set.modules) {
      std::vector<std::byte> blocks(2 * module.scales.size());
      expand_scales(module.scales, table, blocks);
      EXPECT_EQ(golden.at(module.name + ".weight_scale_2").as<float>().at(0),
                cast_scale_2(set.scan.max_exponent()));
      const std::vector<std::byte>& golden_blocks = golden.at(module.name + ".weight_scale").data;
      // A zero block's scale has no value to keep; ModelOpt writes its smallest for byte 0 only.
      EXPECT_EQ(blocks, golden_blocks) << module.name;
    }
  }
}

// The stored tensors decode to what compressed-tensors' own MXFP4 decompressor made of the source, sign of
// zero included.
TEST(LosslessCast, DecodesToTheSourceValues) {
  const test::MiniTensors decoded = test::read_safetensors(test::convert_data() / "decoded.safetensors");
  for (const test::ExpertSet& set : test::read_expert_sets("source")) {
    const CastTable table = make_cast_table(set.scan.max_exponent());
    const float scale_2 = cast_scale_2(set.scan.max_exponent());
    for (const test::ExpertModule& module : set.modules) {
      std::vector<std::byte> blocks(2 * module.scales.size());
      expand_scales(module.scales, table, blocks);
      const std::vector<float> truth = decoded.at(module.name + ".f32").as<float>();
      const std::vector<std::uint16_t> truth_bf16 = decoded.at(module.name + ".bf16").as<std::uint16_t>();
      ASSERT_EQ(truth.size(), 2 * module.packed.size());
      for (std::size_t i = 0; i < truth.size(); ++i) {
        const auto pair = std::to_integer<unsigned>(module.packed[i / 2]);
        const auto nibble = static_cast<std::uint8_t>(i % 2 == 0 ? pair & 15 : pair >> 4);
        const float value =
            e2m1_value(nibble) * (e4m3_value(std::to_integer<std::uint8_t>(blocks[i / 16])) * scale_2);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(truth[i]))
            << module.name << " " << i;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::uint32_t{truth_bf16[i]} << 16)
            << module.name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace perigee
