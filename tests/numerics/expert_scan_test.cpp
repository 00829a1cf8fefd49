#include "numerics/expert_scan.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "numerics/golden_experts.h"
#include "numerics/kernels.h"

namespace perigee {
namespace {

struct Module {
  std::vector<std::byte> packed;
  std::vector<std::byte> scales;
};

// A mix of full, sparse and zero groups over a few or over all scale bytes.
Module random_module(std::size_t groups, unsigned seed, bool all_bytes) {
  std::mt19937 random(seed);
  Module module{std::vector<std::byte>(groups * 16), std::vector<std::byte>(groups)};
  for (std::size_t group = 0; group < groups; ++group) {
    module.scales[group] = static_cast<std::byte>(all_bytes ? random() % 256 : 118 + random() % 4);
    const unsigned kind = random() % 4;
    for (std::size_t i = 0; i < 16; ++i) {
      unsigned pair = random() % 256;
      if (kind == 1) pair &= 0x88;
      if (kind == 2) pair = random() % 16 == 0 ? pair & (random() % 2 == 0 ? 0x0F : 0xF0) : pair & 0x88;
      if (kind == 3) pair &= 0xBB;
      module.packed[group * 16 + i] = static_cast<std::byte>(pair);
    }
  }
  return module;
}

void expect_equal(const Mxfp4Scan& a, const Mxfp4Scan& b) {
  EXPECT_EQ(a.active, b.active);
  EXPECT_EQ(a.zero, b.zero);
  EXPECT_EQ(a.max_code, b.max_code);
  EXPECT_EQ(a.negative_zero_nibbles, b.negative_zero_nibbles);
  EXPECT_EQ(a.zero_nibbles, b.zero_nibbles);
}

Mxfp4Scan reference_scan(const Module& module) {
  Mxfp4Scan scan;
  scan_mxfp4_reference(module.packed, module.scales, scan);
  return scan;
}

TEST(ExpertScan, TheReferenceCountsOneHandMadeModule) {
  // Group 0: zeros of both signs. Group 1: largest 5 (code 13 is -3). Group 2: a single 0.5 in a high nibble.
  Module module{std::vector<std::byte>(48), {std::byte{119}, std::byte{119}, std::byte{7}}};
  module.packed[3] = std::byte{0x80};
  module.packed[16] = std::byte{0xD4};
  module.packed[47] = std::byte{0x10};
  const Mxfp4Scan scan = reference_scan(module);
  EXPECT_EQ(scan.zero[119], 1u);
  EXPECT_EQ(scan.active[119], 1u);
  EXPECT_EQ(scan.active[7], 1u);
  EXPECT_EQ(scan.max_code[119], 5);
  EXPECT_EQ(scan.max_code[7], 1);
  EXPECT_EQ(scan.zero_nibbles, 96u - 3u);
  EXPECT_EQ(scan.negative_zero_nibbles, 1u);
  EXPECT_EQ(scan.max_exponent(), -8);
  EXPECT_EQ(scan.min_exponent(), -120);
}

TEST(ExpertScan, EveryVariantEqualsTheReferenceAtEveryLength) {
  for (const Kernels* kernels : available_kernels()) {
    for (std::size_t groups = 0; groups <= 200; ++groups) {
      const Module module = random_module(groups, static_cast<unsigned>(groups), groups % 2 == 0);
      Mxfp4Scan scan;
      std::vector<std::byte> copy(module.packed.size());
      copy_and_scan_mxfp4(module.packed, module.scales, copy, scan, *kernels);
      ASSERT_EQ(copy, module.packed) << kernels->name << " " << groups;
      expect_equal(scan, reference_scan(module));
      Mxfp4Scan without_copy;
      scan_mxfp4(module.packed, module.scales, without_copy, *kernels);
      expect_equal(without_copy, scan);
      ASSERT_FALSE(HasFailure()) << kernels->name << " " << groups;
    }
  }
}

TEST(ExpertScan, EveryVariantEqualsTheReferenceOnLongModules) {
  for (const bool all_bytes : {false, true}) {
    const Module module = random_module(20011, 7, all_bytes);
    const Mxfp4Scan expected = reference_scan(module);
    for (const Kernels* kernels : available_kernels()) {
      Mxfp4Scan scan;
      scan_mxfp4(module.packed, module.scales, scan, *kernels);
      expect_equal(scan, expected);
      EXPECT_FALSE(HasFailure()) << kernels->name;
    }
  }
}

// Each nibble position in turn holds the only nonzero value of its group.
TEST(ExpertScan, EveryVariantSeesEveryNibbleOfAGroup) {
  for (const Kernels* kernels : available_kernels()) {
    for (std::size_t position = 0; position < 64 * 32; ++position) {
      Module module{std::vector<std::byte>(64 * 16), std::vector<std::byte>(64)};
      const std::size_t group = position / 32;
      for (std::size_t i = 0; i < 64; ++i) module.scales[i] = static_cast<std::byte>(100 + i);
      module.packed[position / 2] = static_cast<std::byte>((1 + position % 7) << (position % 2 * 4));
      Mxfp4Scan scan;
      scan_mxfp4(module.packed, module.scales, scan, *kernels);
      ASSERT_EQ(scan.active[100 + group], 1u) << kernels->name << " " << position;
      ASSERT_EQ(scan.max_code[100 + group], 1 + position % 7) << kernels->name << " " << position;
      ASSERT_EQ(scan.zero_nibbles, 64u * 32 - 1);
    }
  }
}

TEST(ExpertScan, AcceptsAnyAlignment) {
  const Module module = random_module(130, 3, true);
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::vector<std::byte> packed(shift);
    packed.insert(packed.end(), module.packed.begin(), module.packed.end());
    std::vector<std::byte> copy(packed.size() + 1);
    Mxfp4Scan scan;
    copy_and_scan_mxfp4(std::span(packed).subspan(shift), module.scales, std::span(copy).subspan(shift + 1),
                        scan);
    expect_equal(scan, reference_scan(module));
    EXPECT_TRUE(
        std::equal(module.packed.begin(), module.packed.end(), copy.begin() + static_cast<long>(shift) + 1));
  }
}

TEST(ExpertScan, PiecesAddUpToTheWhole) {
  const Module module = random_module(999, 11, true);
  const std::span<const std::byte> packed(module.packed);
  const std::span<const std::byte> scales(module.scales);
  Mxfp4Scan whole;
  scan_mxfp4(packed, scales, whole);
  Mxfp4Scan in_pieces;
  Mxfp4Scan second;
  scan_mxfp4(packed.first(400 * 16), scales.first(400), in_pieces);
  scan_mxfp4(packed.subspan(400 * 16), scales.subspan(400), second);
  in_pieces.add(second);
  expect_equal(in_pieces, whole);
}

TEST(ExpertScan, LargestValueLooksAtCodeAndByte) {
  Mxfp4Scan scan;
  scan.active[120] = scan.active[122] = 1;
  scan.max_code[120] = 7;  // 6 * 2^-7
  scan.max_code[122] = 1;  // 0.5 * 2^-5 = 2 * 2^-7
  EXPECT_EQ(scan.largest_value().code, 7);
  EXPECT_EQ(scan.largest_value().byte, 120);
  scan.max_code[122] = 4;  // 2 * 2^-5 = 8 * 2^-7
  EXPECT_EQ(scan.largest_value().code, 4);
  EXPECT_EQ(scan.largest_value().byte, 122);
  EXPECT_EQ(scan.max_exponent(), -5);
}

TEST(ExpertScan, HasNoLargestWithoutActiveGroups) {
  Mxfp4Scan scan;
  scan.zero[200] = 5;
  EXPECT_FALSE(scan.any_active());
  EXPECT_THROW(scan.max_exponent(), Error);
  EXPECT_THROW(scan.min_exponent(), Error);
  EXPECT_THROW(scan.largest_value(), Error);
}

TEST(ExpertScan, RefusesSizesThatDoNotFit) {
  const std::vector<std::byte> packed(32);
  std::vector<std::byte> out(16);
  Mxfp4Scan scan;
  EXPECT_THROW(scan_mxfp4(packed, std::vector<std::byte>(1), scan), Error);
  EXPECT_THROW(scan_mxfp4(std::span(packed).first(31), std::vector<std::byte>(1), scan), Error);
  EXPECT_THROW(copy_and_scan_mxfp4(packed, std::vector<std::byte>(2), out, scan), Error);
}

}  // namespace
}  // namespace perigee
