// The AVX-512 kernels compiled over SIMDe, so that their logic is tested on machines without AVX-512. It is
// the same text as src/numerics/kernels_avx512.cpp compiles; only who executes the instructions differs.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "numerics/kernels.h"

#if __has_include(<simde/x86/avx512.h>)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpsabi"
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#define PERIGEE_AVX512 inline
#define PERIGEE_AVX512_KERNEL

namespace perigee {
namespace {

#include "numerics/kernels_avx512_body.h"

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint8_t mask, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() & mask);
  return bytes;
}

TEST(Avx512OverSimde, GroupCodesEqualTheScalarForm) {
  for (const std::uint8_t mask : {0xFF, 0x99, 0x88, 0x31}) {
    for (std::size_t groups = 0; groups < 200; ++groups) {
      const auto packed = random_bytes(16 * groups, mask, static_cast<unsigned>(groups));
      std::vector<std::uint8_t> codes(groups);
      std::vector<std::uint8_t> expected(groups);
      std::vector<std::uint8_t> copy(packed.size());
      ZeroNibbles nibbles;
      ZeroNibbles expected_nibbles;
      group_codes_512(packed.data(), groups, copy.data(), codes.data(), nibbles);
      scalar_kernels().group_codes(packed.data(), groups, nullptr, expected.data(), expected_nibbles);
      ASSERT_EQ(codes, expected) << groups;
      ASSERT_EQ(copy, packed);
      ASSERT_EQ(nibbles.zero, expected_nibbles.zero);
      ASSERT_EQ(nibbles.negative_zero, expected_nibbles.negative_zero);
    }
  }
}

TEST(Avx512OverSimde, ExpandPairsEqualsTheScalarForm) {
  const auto table = random_bytes(256, 0xFF, 5);
  for (std::size_t count = 0; count < 300; ++count) {
    const auto scales = random_bytes(count, 0xFF, static_cast<unsigned>(count));
    std::vector<std::uint8_t> out(2 * count);
    std::vector<std::uint8_t> expected(2 * count);
    expand_pairs_512(scales.data(), count, table.data(), out.data());
    scalar_kernels().expand_pairs(scales.data(), count, table.data(), expected.data());
    ASSERT_EQ(out, expected) << count;
  }
}

}  // namespace
}  // namespace perigee

#else

TEST(Avx512OverSimde, Runs) {
  GTEST_SKIP() << "libsimde-dev is not installed";
}

#endif
