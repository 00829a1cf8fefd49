// Requantisation against what the libraries wrote (goldens), the table path against the element-wise
// reference, and the claims of docs/formats.md about error.
#include "numerics/requantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"
#include "numerics/golden_experts.h"
#include "numerics/kernels.h"
#include "numerics/lossless_cast.h"

namespace perigee {
namespace {

using test::ExpertModule;
using test::ExpertSet;

constexpr RequantMethod kMethods[] = {RequantMethod::kCompressedTensorsMinMax, RequantMethod::kModelOptMax,
                                      RequantMethod::kFourOverSix, RequantMethod::kSaturate};

struct Converted {
  std::vector<std::byte> packed;
  std::vector<std::byte> blocks;
  bool operator==(const Converted&) const = default;
};

Converted room_for(const ExpertModule& module) {
  return {std::vector<std::byte>(module.packed.size()), std::vector<std::byte>(2 * module.scales.size())};
}

Converted convert(const Requantiser& requantiser, const ExpertModule& module,
                  const Kernels& kernels = best_kernels()) {
  Converted result = room_for(module);
  requantiser.convert(module.packed, module.scales, result.packed, result.blocks, kernels);
  return result;
}

Converted convert_reference(const Requantiser& requantiser, const ExpertModule& module) {
  Converted result = room_for(module);
  requantiser.convert_reference(module.packed, module.scales, result.packed, result.blocks);
  return result;
}

std::uint8_t nibble_at(const std::vector<std::byte>& packed, std::size_t element) {
  const auto pair = std::to_integer<unsigned>(packed[element / 2]);
  return static_cast<std::uint8_t>(element % 2 == 0 ? pair & 15 : pair >> 4);
}

// Code 8 becomes 0 in the blocks of 16 for which `applies` holds.
template <typename Predicate>
std::vector<std::byte> without_negative_zero(std::vector<std::byte> packed, Predicate applies) {
  for (std::size_t i = 0; i < packed.size(); ++i) {
    if (!applies(i / 8)) continue;
    auto pair = std::to_integer<unsigned>(packed[i]);
    if ((pair & 0x0F) == 0x08) pair &= 0xF0;
    if ((pair & 0xF0) == 0x80) pair &= 0x0F;
    packed[i] = static_cast<std::byte>(pair);
  }
  return packed;
}

bool is_zero_block(const std::vector<std::byte>& packed, std::size_t block) {
  for (std::size_t i = 0; i < 16; ++i) {
    if ((nibble_at(packed, 16 * block + i) & 7) != 0) return false;
  }
  return true;
}

ExpertSet make_set(ExpertModule module) {
  ExpertSet set;
  scan_mxfp4_reference(module.packed, module.scales, set.scan);
  set.modules.push_back(std::move(module));
  return set;
}

// Groups of random largest code (0: zeros of both signs) under exponents 0..span below `top_byte`; the first
// group holds `top_code` at the top.
ExpertSet random_set(unsigned seed, int top_byte, int span, std::uint8_t top_code, std::size_t groups = 300) {
  std::mt19937 random(seed);
  ExpertModule module{"random", std::vector<std::byte>(16 * groups), std::vector<std::byte>(groups)};
  for (std::size_t group = 0; group < groups; ++group) {
    const int distance = group == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(span + 1));
    module.scales[group] = static_cast<std::byte>(std::max(0, top_byte - distance));
    const unsigned largest = distance == 0 ? top_code : random() % 8;
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned low = random() % (largest + 1) | (random() % 2 << 3);
      const unsigned high = random() % (largest + 1) | (random() % 2 << 3);
      module.packed[16 * group + i] = static_cast<std::byte>(low | high << 4);
    }
  }
  module.packed[0] = static_cast<std::byte>(top_code);
  return make_set(std::move(module));
}

TEST(Requantise, EqualsCompressedTensors) {
  const auto golden = test::read_safetensors(test::convert_data() / "requant_ct" / "experts.safetensors");
  std::size_t compared = 0;
  for (const ExpertSet& set : test::read_expert_sets("source")) {
    const Requantiser requantiser(RequantMethod::kCompressedTensorsMinMax, set.scan);
    for (const ExpertModule& module : set.modules) {
      const auto global = golden.at(module.name + ".weight_global_scale").as<std::uint32_t>().at(0);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(requantiser.global_scale()), global) << module.name;
      const Converted result = convert(requantiser, module);
      EXPECT_EQ(result.blocks, golden.at(module.name + ".weight_scale").data) << module.name;
      EXPECT_EQ(result.packed, golden.at(module.name + ".weight_packed").data) << module.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 36u);
}

TEST(Requantise, EqualsModelOpt) {
  const auto golden =
      test::read_safetensors(test::convert_data() / "requant_modelopt" / "experts.safetensors");
  std::size_t compared = 0;
  for (const ExpertSet& set : test::read_expert_sets("source")) {
    const Requantiser requantiser(RequantMethod::kModelOptMax, set.scan);
    for (const ExpertModule& module : set.modules) {
      const auto scale_2 = golden.at(module.name + ".weight_scale_2").as<std::uint32_t>().at(0);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(requantiser.scale_2()), scale_2) << module.name;
      const Converted result = convert(requantiser, module);
      EXPECT_EQ(result.blocks, golden.at(module.name + ".weight_scale").data) << module.name;
      EXPECT_EQ(result.packed, golden.at(module.name + ".weight").data) << module.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 36u);
}

// ModelOpt writes 0 for -0 everywhere; blocks that we keep are kept with their -0.
TEST(Requantise, SaturatesLikeModelOpt) {
  const auto golden =
      test::read_safetensors(test::convert_data() / "overspan_modelopt" / "experts.safetensors");
  std::size_t rounded_blocks = 0;
  for (const ExpertSet& set : test::read_expert_sets("source_overspan")) {
    const Requantiser requantiser(RequantMethod::kSaturate, set.scan);
    for (const ExpertModule& module : set.modules) {
      EXPECT_EQ(golden.at(module.name + ".weight_scale_2").as<float>().at(0), requantiser.scale_2());
      const Converted result = convert(requantiser, module);
      const auto is_kept = [&](std::size_t block) {
        const int exponent = std::to_integer<int>(module.scales[block / 2]) - 127;
        return set.scan.max_exponent() - exponent <= kExactSpan || is_zero_block(module.packed, block);
      };
      EXPECT_EQ(without_negative_zero(result.packed, is_kept), golden.at(module.name + ".weight").data)
          << module.name;
      EXPECT_EQ(result.blocks, golden.at(module.name + ".weight_scale").data) << module.name;
      for (std::size_t block = 0; block < result.blocks.size(); ++block) {
        if (is_kept(block)) {
          EXPECT_TRUE(std::equal(result.packed.begin() + static_cast<long>(8 * block),
                                 result.packed.begin() + static_cast<long>(8 * block + 8),
                                 module.packed.begin() + static_cast<long>(8 * block)));
        } else {
          ++rounded_blocks;
        }
      }
    }
  }
  EXPECT_GT(rounded_blocks, 200u);
}

TEST(Requantise, TablesEqualTheReferenceOnTheGoldenSources) {
  for (const char* checkpoint : {"source", "source_overspan", "source_corner"}) {
    for (const ExpertSet& set : test::read_expert_sets(checkpoint)) {
      for (const RequantMethod method : kMethods) {
        const Requantiser requantiser(method, set.scan);
        for (const ExpertModule& module : set.modules) {
          const Converted expected = convert_reference(requantiser, module);
          for (const Kernels* kernels : available_kernels()) {
            EXPECT_EQ(convert(requantiser, module, *kernels), expected)
                << module.name << " " << static_cast<int>(method) << " " << kernels->name;
          }
        }
      }
    }
  }
}

TEST(Requantise, TablesEqualTheReferenceForEveryTopCodeAndManySpans) {
  for (std::uint8_t top_code = 1; top_code < 8; ++top_code) {
    for (const int top_byte : {20, 60, 121, 200, 252}) {
      for (const int span : {3, 17, 30, 60}) {
        const ExpertSet set =
            random_set(top_code + static_cast<unsigned>(span), top_byte, span, top_code, 77);
        for (const RequantMethod method : kMethods) {
          const Requantiser requantiser(method, set.scan);
          const Converted expected = convert_reference(requantiser, set.modules[0]);
          for (const Kernels* kernels : available_kernels()) {
            ASSERT_EQ(convert(requantiser, set.modules[0], *kernels), expected)
                << static_cast<int>(method) << " " << int{top_code} << " " << top_byte << " " << span << " "
                << kernels->name;
          }
        }
      }
    }
  }
}

TEST(Requantise, NeverWritesAScaleThatIsZeroNegativeOrNan) {
  for (const RequantMethod method : kMethods) {
    const ExpertSet set = random_set(5, 140, 80, 6);
    for (const std::byte code : convert(Requantiser(method, set.scan), set.modules[0]).blocks) {
      ASSERT_GT(std::to_integer<int>(code), 0);
      ASSERT_LT(std::to_integer<int>(code), 0x7F);
    }
  }
}

// Decoded value by the layout's own formula, in double.
double decoded(const Requantiser& requantiser, RequantMethod method, const Converted& result,
               std::size_t element) {
  const double scaled =
      static_cast<double>(e2m1_value(nibble_at(result.packed, element))) *
      static_cast<double>(e4m3_value(std::to_integer<std::uint8_t>(result.blocks[element / 16])));
  const bool divides =
      method == RequantMethod::kCompressedTensorsMinMax || method == RequantMethod::kFourOverSix;
  return divides ? scaled / static_cast<double>(requantiser.global_scale())
                 : scaled * static_cast<double>(requantiser.scale_2());
}

double source_value_of(const ExpertModule& module, std::size_t element) {
  return std::ldexp(static_cast<double>(e2m1_value(nibble_at(module.packed, element))),
                    std::to_integer<int>(module.scales[element / 32]) - 127);
}

// How far the decoded output is from the decoded source.
struct Difference {
  std::size_t changed_blocks = 0;
  double source_squared = 0, output_squared = 0, product = 0, error_squared = 0;
  double relative_rmse() const { return std::sqrt(error_squared / source_squared); }
  double cosine() const { return product / std::sqrt(source_squared) / std::sqrt(output_squared); }
};

Difference difference(const Requantiser& requantiser, RequantMethod method, const ExpertModule& module) {
  const Converted result = convert(requantiser, module);
  Difference sums;
  for (std::size_t block = 0; block < result.blocks.size(); ++block) {
    bool changed = false;
    for (std::size_t i = 16 * block; i < 16 * block + 16; ++i) {
      const double source = source_value_of(module, i);
      const double output = decoded(requantiser, method, result, i);
      changed |= source != output;
      sums.source_squared += source * source;
      sums.output_squared += output * output;
      sums.product += source * output;
      sums.error_squared += (source - output) * (source - output);
    }
    sums.changed_blocks += changed;
  }
  return sums;
}

TEST(Requantise, HasTheErrorsMeasuredWithTheLibraries) {
  std::ifstream file(test::convert_data() / "expected.json");
  const auto modules = nlohmann::json::parse(file).at("checkpoints").at("source").at("modules");
  for (const ExpertSet& set : test::read_expert_sets("source")) {
    const Requantiser minmax(RequantMethod::kCompressedTensorsMinMax, set.scan);
    const Requantiser modelopt(RequantMethod::kModelOptMax, set.scan);
    for (const ExpertModule& module : set.modules) {
      const auto& expected = modules.at(module.name);
      const Difference by_minmax = difference(minmax, RequantMethod::kCompressedTensorsMinMax, module);
      EXPECT_NEAR(by_minmax.relative_rmse(), expected.at("requant").at("rel_rmse").get<double>(), 1e-12)
          << module.name;
      EXPECT_NEAR(by_minmax.cosine(), expected.at("requant").at("cosine").get<double>(), 1e-12)
          << module.name;
      const Difference by_modelopt = difference(modelopt, RequantMethod::kModelOptMax, module);
      EXPECT_NEAR(by_modelopt.relative_rmse(), expected.at("requant_modelopt").at("rel_rmse").get<double>(),
                  1e-12)
          << module.name;
    }
  }
}

std::size_t blocks_four_over_six_changes(const ExpertSet& set) {
  const Requantiser requantiser(RequantMethod::kFourOverSix, set.scan);
  return difference(requantiser, RequantMethod::kFourOverSix, set.modules[0]).changed_blocks;
}

// The set of random_set without values above the first group's.
ExpertSet set_with_largest(unsigned seed, int span, std::uint8_t top_code) {
  ExpertModule module = random_set(seed, 121, span, top_code).modules[0];
  for (std::size_t i = 0; i < 2 * module.packed.size(); ++i) {
    const float limit = std::ldexp(e2m1_value(top_code), 121 - std::to_integer<int>(module.scales[i / 32]));
    const std::uint8_t nibble = nibble_at(module.packed, i);
    if (std::fabs(e2m1_value(nibble)) > limit)
      module.packed[i / 2] &= i % 2 == 0 ? std::byte{0xF0} : std::byte{0x0F};
  }
  return make_set(std::move(module));
}

// With the largest value 1.5 * 2^n every block's exact scale is a power of two that E4M3 holds over the whole
// window.
TEST(FourOverSix, IsExactInsideTheWindowWhenTheLargestValueIsOneAndAHalfTimesAPowerOfTwo) {
  for (const std::uint8_t top_code : {std::uint8_t{3}, std::uint8_t{5}, std::uint8_t{7}}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      EXPECT_EQ(blocks_four_over_six_changes(set_with_largest(seed, kExactSpan, top_code)), 0u)
          << int{top_code};
    }
  }
}

// With the largest value 2^n exact scales are 1.5 * 2^e: two significant bits, of which E4M3 runs out
// earlier, 15 binades below a largest code of 6, in blocks whose own largest code is 3.
TEST(FourOverSix, IsExactOver14BinadesWhenTheLargestValueIsAPowerOfTwo) {
  const std::pair<std::uint8_t, int> spans[] = {{6, 14}, {4, 15}, {2, 16}, {1, 17}};
  for (const auto& [top_code, span] : spans) {
    std::size_t beyond = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      EXPECT_EQ(blocks_four_over_six_changes(set_with_largest(seed, span, top_code)), 0u) << int{top_code};
      beyond += blocks_four_over_six_changes(set_with_largest(seed, span + 1, top_code));
    }
    EXPECT_GT(beyond, 0u) << int{top_code};
  }
}

TEST(FourOverSix, IsNeverWorseThanEitherCandidate) {
  const ExpertSet set = random_set(1, 121, 30, 6, 600);
  const Requantiser four_over_six(RequantMethod::kFourOverSix, set.scan);
  const Converted result = convert(four_over_six, set.modules[0]);
  const double global = static_cast<double>(four_over_six.global_scale());
  for (std::size_t block = 0; block < result.blocks.size(); ++block) {
    const auto error_with = [&](double step) {
      double sum = 0;
      for (std::size_t i = 16 * block; i < 16 * block + 16; ++i) {
        const double source = std::fabs(source_value_of(set.modules[0], i));
        const double nearest =
            static_cast<double>(e2m1_value(e2m1_encode(static_cast<float>(source / step)))) * step;
        sum += (source - nearest) * (source - nearest);
      }
      return sum;
    };
    double largest = 0;
    for (std::size_t i = 16 * block; i < 16 * block + 16; ++i) {
      largest = std::max(largest, std::fabs(source_value_of(set.modules[0], i)));
    }
    const auto step_of = [&](double divisor) {
      const float wanted = static_cast<float>(std::clamp(global * largest / divisor, 0x1p-9, 448.0));
      return static_cast<double>(e4m3_value(e4m3_encode(wanted))) / global;
    };
    const double chosen = error_with(
        static_cast<double>(e4m3_value(std::to_integer<std::uint8_t>(result.blocks[block]))) / global);
    ASSERT_LE(chosen, error_with(step_of(6)) * (1 + 1e-9)) << block;
    ASSERT_LE(chosen, error_with(step_of(4)) * (1 + 1e-9)) << block;
  }
}

TEST(Saturate, UsesTheNibbleMapOfTheFormatsDocument) {
  // Row d - 18: what becomes of 0.5, 1, 1.5, 2, 3, 4, 6.
  const double expected[5][7] = {{0, .5, 1, 1, 1.5, 2, 3},
                                 {0, 0, .5, .5, 1, 1, 1.5},
                                 {0, 0, 0, 0, .5, .5, 1},
                                 {0, 0, 0, 0, 0, 0, .5},
                                 {0, 0, 0, 0, 0, 0, 0}};
  for (int distance = 18; distance <= 22; ++distance) {
    ExpertModule module{
        "hand", std::vector<std::byte>(32), {std::byte{121}, static_cast<std::byte>(121 - distance)}};
    module.packed[0] = std::byte{7};
    for (std::size_t code = 1; code < 8; ++code)
      module.packed[16 + code] = static_cast<std::byte>(code | (code | 8) << 4);
    const ExpertSet set = make_set(module);
    const Converted result = convert(Requantiser(RequantMethod::kSaturate, set.scan), module);
    EXPECT_EQ(std::to_integer<int>(result.blocks[2]), 0x01);
    for (std::size_t code = 1; code < 8; ++code) {
      const double value = expected[distance - 18][code - 1];
      EXPECT_EQ(e2m1_value(nibble_at(result.packed, 32 + 2 * code)), value) << distance << " " << code;
      const std::uint8_t negative = nibble_at(result.packed, 32 + 2 * code + 1);
      EXPECT_EQ(e2m1_value(negative), -value);
      EXPECT_NE(negative & 8, 0) << "a negative value keeps its sign when it becomes zero";
    }
  }
}

TEST(Saturate, EqualsTheCastWhereTheCastIsLossless) {
  for (const ExpertSet& set : test::read_expert_sets("source")) {
    const Requantiser requantiser(RequantMethod::kSaturate, set.scan);
    const CastTable table = make_cast_table(set.scan.max_exponent());
    for (const ExpertModule& module : set.modules) {
      const Converted result = convert(requantiser, module);
      Converted cast{module.packed, std::vector<std::byte>(2 * module.scales.size())};
      expand_scales_reference(module.scales, table, cast.blocks);
      EXPECT_EQ(result, cast) << module.name;
      EXPECT_EQ(difference(requantiser, RequantMethod::kSaturate, module).changed_blocks, 0u);
    }
  }
}

TEST(Requantise, ZeroSetsBecomeZerosWithTheMethodsOwnScales) {
  ExpertModule module{
      "zero", std::vector<std::byte>(48, std::byte{0x80}), {std::byte{0}, std::byte{119}, std::byte{255}}};
  const ExpertSet set = make_set(module);
  const std::pair<RequantMethod, int> expected[] = {{RequantMethod::kCompressedTensorsMinMax, 0x20},
                                                    {RequantMethod::kModelOptMax, 0x38},
                                                    {RequantMethod::kFourOverSix, 0x38}};
  for (const auto& [method, code] : expected) {
    const Requantiser requantiser(method, set.scan);
    EXPECT_EQ(requantiser.scale_2(), 1);
    EXPECT_EQ(requantiser.global_scale(), 1);
    const Converted result = convert(requantiser, module);
    EXPECT_EQ(result.packed, std::vector<std::byte>(48)) << static_cast<int>(method);
    EXPECT_EQ(result.blocks, std::vector<std::byte>(6, static_cast<std::byte>(code)))
        << static_cast<int>(method);
  }
  const Requantiser saturate(RequantMethod::kSaturate, set.scan);
  EXPECT_EQ(saturate.scale_2(), 0x1p-8f);
  const Converted result = convert(saturate, module);
  EXPECT_EQ(result.packed, module.packed);
  const std::vector<std::byte> scales = {std::byte{0x01}, std::byte{0x01}, std::byte{0x38},
                                         std::byte{0x38}, std::byte{0x78}, std::byte{0x78}};
  EXPECT_EQ(result.blocks, scales);
}

TEST(Requantise, RefusesSetsWithoutAFiniteLargestValue) {
  for (const int byte : {253, 254, 255}) {
    Mxfp4Scan scan;
    scan.active[static_cast<std::size_t>(byte)] = 1;
    scan.max_code[static_cast<std::size_t>(byte)] = 7;
    for (const RequantMethod method : kMethods) EXPECT_THROW(Requantiser(method, scan), Error) << byte;
  }
}

TEST(Requantise, TakesTheSmallestSourcesWithoutNanOrRefusesThem) {
  const ExpertSet set = random_set(3, 4, 4, 7);
  EXPECT_EQ(Requantiser(RequantMethod::kCompressedTensorsMinMax, set.scan).global_scale(), 1.0f);
  EXPECT_THROW(Requantiser(RequantMethod::kSaturate, set.scan), Error);
  const Requantiser modelopt(RequantMethod::kModelOptMax, set.scan);
  EXPECT_GT(modelopt.scale_2(), 0.0f);
  EXPECT_THROW(modelopt.global_scale(), Error);
  EXPECT_EQ(convert(modelopt, set.modules[0]), convert_reference(modelopt, set.modules[0]));
}

TEST(Requantise, RefusesModulesThatTheScanDidNotSee) {
  const ExpertSet set = random_set(3, 121, 4, 5);
  ExpertModule other = set.modules[0];
  other.scales[299] = std::byte{90};
  for (const RequantMethod method : kMethods)
    EXPECT_THROW(convert(Requantiser(method, set.scan), other), Error);
  other = set.modules[0];
  other.packed[0] = std::byte{7};
  for (const RequantMethod method : kMethods)
    EXPECT_THROW(convert(Requantiser(method, set.scan), other), Error);
}

TEST(Requantise, RefusesSizesThatDoNotFit) {
  const ExpertSet set = random_set(3, 121, 4, 5);
  const Requantiser requantiser(RequantMethod::kModelOptMax, set.scan);
  const ExpertModule& module = set.modules[0];
  Converted result = room_for(module);
  result.blocks.pop_back();
  EXPECT_THROW(requantiser.convert(module.packed, module.scales, result.packed, result.blocks), Error);
  EXPECT_THROW(requantiser.convert_reference(module.packed, module.scales, result.packed, result.blocks),
               Error);
}

}  // namespace
}  // namespace perigee
