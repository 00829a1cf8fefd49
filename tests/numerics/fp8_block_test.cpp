#include "numerics/fp8_block.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "numerics/bf16.h"
#include "numerics/e4m3.h"
#include "numerics/golden_experts.h"
#include "numerics/kernels.h"

namespace perigee {
namespace {

struct Quantised {
  std::vector<std::byte> fp8;
  std::vector<float> scales;
};

std::uint64_t tiles(std::uint64_t size) {
  return (size + 127) / 128;
}

Quantised quantise(const std::vector<std::byte>& bf16, std::uint64_t rows, std::uint64_t columns,
                   const Kernels& kernels = best_kernels()) {
  Quantised result{std::vector<std::byte>(rows * columns), std::vector<float>(tiles(rows) * tiles(columns))};
  EXPECT_EQ(quantise_fp8_blocks(bf16, rows, columns, result.fp8, result.scales, kernels), -1);
  return result;
}

std::vector<std::byte> to_bytes(const std::vector<std::uint16_t>& values) {
  std::vector<std::byte> bytes(2 * values.size());
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::uint16_t> random_bf16(std::size_t count, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (auto& value : values) value = bf16_round(normal(random) * std::exp2(spread * normal(random)));
  return values;
}

TEST(Fp8Blocks, EqualModelOptIncludingRaggedTiles) {
  const auto golden =
      test::read_safetensors(test::convert_data() / "mixed_modelopt" / "attention.safetensors");
  const auto source = test::read_safetensors_folder(test::convert_data() / "source");
  std::size_t compared = 0;
  std::size_t ragged = 0;
  for (const auto& [name, tensor] : golden) {
    if (!name.ends_with(".weight")) continue;
    const std::uint64_t rows = tensor.shape.at(0);
    const std::uint64_t columns = tensor.shape.at(1);
    ASSERT_EQ(source.at(name).dtype, "BF16") << name;
    for (const Kernels* kernels : available_kernels()) {
      const Quantised result = quantise(source.at(name).data, rows, columns, *kernels);
      EXPECT_EQ(result.fp8, tensor.data) << name << " " << kernels->name;
      EXPECT_EQ(result.scales, golden.at(name + "_scale").as<float>()) << name << " " << kernels->name;
    }
    ++compared;
    ragged += rows % 128 != 0 || columns % 128 != 0;
  }
  EXPECT_EQ(compared, 22u);
  EXPECT_GT(ragged, 10u);
}

// ModelOpt's arithmetic, one element at a time.
TEST(Fp8Blocks, EveryVariantEqualsTheDefinitionAtEveryShape) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {1, 1}, {1, 15}, {3, 16}, {5, 17}, {128, 128}, {129, 127}, {130, 257}, {2, 300}}) {
    const auto values = random_bf16(rows * columns, static_cast<unsigned>(rows + columns), 4);
    for (const Kernels* kernels : available_kernels()) {
      const Quantised result = quantise(to_bytes(values), rows, columns, *kernels);
      for (std::uint64_t i = 0; i < values.size(); ++i) {
        if (i % 97 != 0 && i + 1 != values.size()) continue;  // the search for the maximum is slow
        const std::uint64_t tile_row = i / columns / 128;
        const std::uint64_t tile_column = i % columns / 128;
        float largest = 0;
        for (std::uint64_t r = 128 * tile_row; r < std::min(rows, 128 * tile_row + 128); ++r) {
          for (std::uint64_t c = 128 * tile_column; c < std::min(columns, 128 * tile_column + 128); ++c) {
            largest = std::max(largest, std::fabs(bf16_value(values[r * columns + c])));
          }
        }
        const float scale = round_to_bf16(largest / 448.0f);
        ASSERT_EQ(result.scales[tile_row * tiles(columns) + tile_column], scale);
        ASSERT_EQ(std::to_integer<int>(result.fp8[i]),
                  e4m3_encode(round_to_bf16(bf16_value(values[i]) / scale)))
            << kernels->name << " " << i;
      }
    }
  }
}

// Every finite bf16 under scales from subnormal to huge: the fast encoders against the scalar one.
TEST(Fp8Blocks, EveryVariantEncodesEveryBf16LikeTheScalarForm) {
  std::vector<std::uint16_t> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7FFF) < 0x7F80) values.push_back(static_cast<std::uint16_t>(bits));
  }
  const std::vector<std::byte> bytes = to_bytes(values);
  const auto* in = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (const float scale : {0x1p-133f, 0x1.8p-127f, 0x1p-20f, 0.0123f, 1.0f, 1.0234375f, 7.5e5f, 3e38f}) {
    std::vector<std::uint8_t> expected(values.size());
    scalar_kernels().quantise_fp8(in, values.size(), scale, expected.data());
    for (const Kernels* kernels : available_kernels()) {
      std::vector<std::uint8_t> result(values.size());
      kernels->quantise_fp8(in, values.size(), scale, result.data());
      ASSERT_EQ(result, expected) << kernels->name << " " << scale;
    }
  }
}

TEST(Fp8Blocks, ATileOfZerosHasScaleOneAndKeepsItsNeighbours) {
  std::vector<std::uint16_t> values(2 * 256, 0);
  values[5] = 0x8000;
  values[200] = bf16_round(-3.0f);
  const Quantised result = quantise(to_bytes(values), 2, 256);
  EXPECT_EQ(result.scales[0], 1.0f);
  EXPECT_EQ(std::to_integer<int>(result.fp8[5]) & 0x7F, 0);
  EXPECT_EQ(result.scales[1], round_to_bf16(3.0f / 448.0f));
  EXPECT_EQ(std::to_integer<int>(result.fp8[200]), 0xFE);
}

TEST(Fp8Blocks, TilesTooSmallForABf16ScaleStayFinite) {
  for (const std::uint16_t tiny :
       {std::uint16_t{1}, std::uint16_t{100}, std::uint16_t{300}, std::uint16_t{0x0100}}) {
    const std::vector<std::uint16_t> values = {tiny, static_cast<std::uint16_t>(tiny | 0x8000)};
    const Quantised result = quantise(to_bytes(values), 1, 2);
    ASSERT_GT(result.scales[0], 0.0f) << tiny;
    const double back = static_cast<double>(e4m3_value(std::to_integer<std::uint8_t>(result.fp8[0]))) *
                        static_cast<double>(result.scales[0]);
    const auto source = static_cast<double>(bf16_value(tiny));
    EXPECT_NEAR(back / source, 1, 0.34) << tiny;
    EXPECT_EQ(std::to_integer<int>(result.fp8[1]), std::to_integer<int>(result.fp8[0]) | 0x80);
  }
}

TEST(Fp8Blocks, ReportsTheFirstValueThatIsNotFinite) {
  for (const std::uint16_t bad :
       {std::uint16_t{0x7F80}, std::uint16_t{0xFF80}, std::uint16_t{0x7FC0}, std::uint16_t{0xFFFF}}) {
    auto values = random_bf16(130 * 140, 3, 1);
    values[129 * 140 + 3] = bad;
    values[2 * 140 + 139] = bad;  // first in the matrix, in the second tile
    Quantised result{std::vector<std::byte>(values.size()), std::vector<float>(4)};
    EXPECT_EQ(quantise_fp8_blocks(to_bytes(values), 130, 140, result.fp8, result.scales), 2 * 140 + 139);
  }
}

TEST(Fp8Blocks, EmptyMatricesAndWrongSizes) {
  std::vector<std::byte> fp8(4);
  std::vector<float> scales(1);
  EXPECT_EQ(quantise_fp8_blocks({}, 0, 5, {}, {}), -1);
  EXPECT_EQ(quantise_fp8_blocks({}, 5, 0, {}, {}), -1);
  EXPECT_THROW(quantise_fp8_blocks(std::vector<std::byte>(7), 2, 2, fp8, scales), Error);
  EXPECT_THROW(quantise_fp8_blocks(std::vector<std::byte>(8), 2, 2, fp8, {}), Error);
  EXPECT_THROW(quantise_fp8_blocks(std::vector<std::byte>(8), std::uint64_t{1} << 63, 2, fp8, scales), Error);
}

}  // namespace
}  // namespace perigee
