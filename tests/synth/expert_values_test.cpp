// What the options for difficult experts promise, read back from the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "synth/checkpoint_reader.h"
#include "synth/group_library.h"

namespace perigee {
namespace {

using test::all_modules;
using test::Module;
using test::module_of;

constexpr std::uint64_t kMoeLayer = 1;
// One shard with routed experts is enough here, and quicker.
test::TensorBytes make_tensors(SynthOptions options) {
  options.shards = {kMoeLayer + 1};
  return test::make_tensors(options);
}

constexpr double kMagnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

unsigned smallest_scale(const Module& module) {
  return *std::min_element(module.scales.begin(), module.scales.end());
}
unsigned largest_scale(const Module& module) {
  return *std::max_element(module.scales.begin(), module.scales.end());
}

struct ZeroCounts {
  std::size_t zeros = 0, negative = 0;
};
ZeroCounts count_zeros(const Module& module) {
  ZeroCounts counts;
  for (std::size_t group = 0; group < module.groups(); ++group) {
    for (std::size_t element = 0; element < 32; ++element) {
      counts.zeros += (module.code(group, element) & 7) == 0;
      counts.negative += module.code(group, element) == 8;
    }
  }
  return counts;
}

TEST(SynthGroup, FollowsTheReleasesRule) {
  // Largest 6.9: exponent 0. Ties go to the even code: 0.25 -> 0, 0.75 -> 1, 2.5 -> 2, 3.5 -> 4, 5 -> 4.
  std::vector<double> weights(32, 0.0);
  const double given[8] = {6.9, 0.25, 0.26, 0.75, 2.5, 3.5, 5, 5.1};
  std::copy(std::begin(given), std::end(given), weights.begin());
  const synth::MxGroup group = synth::quantise_group(weights);
  EXPECT_EQ(group.exponent, 0);
  EXPECT_EQ(group.codes[0], 0x76642107u);
  EXPECT_EQ(group.codes[1], 0u);
  for (double& weight : weights) weight /= 1024;
  EXPECT_EQ(synth::quantise_group(weights).exponent, -10);
  EXPECT_EQ(synth::quantise_group(weights).codes, group.codes);
}

TEST(SynthExperts, LookLikeQuantisedNormalWeights) {
  double sum = 0, squares = 0;
  std::size_t weights = 0, sixes = 0, groups = 0;
  std::set<unsigned> scales;
  for (const Module& module : all_modules(make_tensors({}))) {
    for (std::size_t group = 0; group < module.groups(); ++group) {
      const unsigned largest = module.largest_magnitude_code(group);
      ASSERT_TRUE(largest == 6 || largest == 7);  // 4 or 6
      sixes += largest == 7;
      ++groups;
      scales.insert(module.scales[group]);
      for (std::size_t element = 0; element < 32; ++element) {
        const unsigned code = module.code(group, element);
        ASSERT_NE(code, 8u);
        const double value =
            std::ldexp(kMagnitudes[code & 7] * (code < 8 ? 1 : -1), module.scales[group] - 127);
        sum += value, squares += value * value;
        ++weights;
      }
    }
  }
  const double count = static_cast<double>(weights);
  const double deviation = std::sqrt(squares / count);
  EXPECT_LT(std::abs(sum / count), 5 * deviation / std::sqrt(count));
  EXPECT_GT(deviation, 1.0 / 256);
  EXPECT_LT(deviation, 2.0 / 64);
  EXPECT_GT(sixes, groups / 4);
  EXPECT_LT(sixes, groups - groups / 20);
  EXPECT_GT(*scales.begin(), 100u);
  EXPECT_LT(*scales.rbegin(), 127u);
  EXPECT_GE(scales.size(), 4u);
}

TEST(SynthExperts, ModulesDiffer) {
  const auto modules = all_modules(make_tensors({}));
  std::set<std::vector<std::uint8_t>> distinct;
  for (const Module& module : modules) distinct.insert(module.packed);
  EXPECT_EQ(distinct.size(), modules.size());
}

TEST(SynthExperts, FillThePrescribedSpanExactly) {
  for (const unsigned span : {0u, 17u, 24u}) {
    SynthOptions options;
    options.experts.span = span;
    for (const Module& module : all_modules(make_tensors(options))) {
      EXPECT_EQ(largest_scale(module) - smallest_scale(module), span);
    }
  }
}

TEST(SynthExperts, UnevenPairsLowerW3) {
  SynthOptions options;
  options.experts.span = 5;
  options.experts.uneven_pair = 13;
  const auto tensors = make_tensors(options);
  const Module w1 = module_of(tensors, kMoeLayer, 0, Projection::kW1);
  const Module w2 = module_of(tensors, kMoeLayer, 0, Projection::kW2);
  const Module w3 = module_of(tensors, kMoeLayer, 0, Projection::kW3);
  EXPECT_EQ(largest_scale(w1), largest_scale(w2));
  EXPECT_EQ(largest_scale(w1), largest_scale(w3) + 13);
  EXPECT_EQ(largest_scale(w1) - smallest_scale(w3), 18u);
}

TEST(SynthExperts, StressEveryNthExpertOnly) {
  SynthOptions options;
  options.experts.every = 3;
  options.experts.byte_ff = true;
  const auto tensors = make_tensors(options);
  for (std::uint64_t expert = 0; expert < 8; ++expert) {
    const Module module = module_of(tensors, kMoeLayer, expert, Projection::kW1);
    EXPECT_EQ(largest_scale(module) == 0xFF, expert % 3 == 0) << expert;
  }
}

TEST(SynthExperts, CarryNegativeZerosWhenAsked) {
  SynthOptions options;
  options.experts.negative_zeros = 0.25;
  std::size_t zeros = 0, negative = 0;
  for (const Module& module : all_modules(make_tensors(options))) {
    zeros += count_zeros(module).zeros, negative += count_zeros(module).negative;
  }
  EXPECT_NEAR(static_cast<double>(negative) / static_cast<double>(zeros), 0.25, 0.02);
}

TEST(SynthExperts, HaveZeroGroupsWhenAsked) {
  for (const ZeroGroupScale choice :
       {ZeroGroupScale::kKept, ZeroGroupScale::kZero, ZeroGroupScale::kRandom}) {
    SynthOptions options;
    options.experts.zero_groups = 0.2;
    options.experts.zero_group_scale = choice;
    std::size_t groups = 0, zero = 0;
    std::set<unsigned> scales;
    for (const Module& module : all_modules(make_tensors(options))) {
      for (std::size_t group = 0; group < module.groups(); ++group) {
        ++groups;
        if (module.largest_magnitude_code(group) != 0) continue;
        ++zero;
        scales.insert(module.scales[group]);
      }
    }
    EXPECT_NEAR(static_cast<double>(zero) / static_cast<double>(groups), 0.2, 0.02);
    EXPECT_FALSE(scales.contains(0xFF));
    if (choice == ZeroGroupScale::kKept) {
      EXPECT_GT(*scales.begin(), 100u);
    }
    if (choice == ZeroGroupScale::kZero) {
      EXPECT_EQ(scales, (std::set<unsigned>{0}));
    }
    if (choice == ZeroGroupScale::kRandom) {
      EXPECT_GT(scales.size(), 200u);
    }
  }
}

TEST(SynthExperts, HaveTheExtremeScaleBytesWhenAsked) {
  SynthOptions options;
  options.experts.byte_00 = options.experts.byte_ff = options.experts.byte_ff_zero = true;
  for (const Module& module : all_modules(make_tensors(options))) {
    EXPECT_EQ(module.scales[2], 0x00);
    EXPECT_NE(module.largest_magnitude_code(2), 0u);
    EXPECT_EQ(module.scales[3], 0xFF);
    EXPECT_NE(module.largest_magnitude_code(3), 0u);
    EXPECT_EQ(module.scales[4], 0xFF);
    EXPECT_EQ(module.largest_magnitude_code(4), 0u);
  }
}

TEST(SynthExperts, CanHaveAProjectionThatIsAllZero) {
  SynthOptions options;
  options.experts.all_zero = Projection::kW1;
  options.experts.zero_group_scale = ZeroGroupScale::kZero;
  const auto tensors = make_tensors(options);
  const Module w1 = module_of(tensors, kMoeLayer, 4, Projection::kW1);
  EXPECT_EQ(count_zeros(w1).zeros, w1.groups() * 32);
  EXPECT_EQ(largest_scale(w1), 0u);
  EXPECT_NE(module_of(tensors, kMoeLayer, 4, Projection::kW3).largest_magnitude_code(0), 0u);
}

}  // namespace
}  // namespace perigee
