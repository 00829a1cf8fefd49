// The choice of kernels, and the parts of them that no other test reaches alone.
#include "numerics/kernels.h"

#include <gtest/gtest.h>

#include <random>

namespace perigee {
namespace {

TEST(Kernels, TheScalarFormIsAlwaysThereAndTheBestIsTheLast) {
  ASSERT_FALSE(available_kernels().empty());
  EXPECT_EQ(available_kernels().front(), &scalar_kernels());
  EXPECT_EQ(available_kernels().back(), &best_kernels());
}

#if defined(__x86_64__)
TEST(Kernels, Avx2IsUsedWhereTheProcessorHasIt) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
  ASSERT_GE(available_kernels().size(), 2u);
  EXPECT_EQ(available_kernels()[1], &avx2_kernels());
}

TEST(Kernels, Avx512IsUsedWhereTheProcessorHasIt) {
  if (!__builtin_cpu_supports("avx512vbmi")) GTEST_SKIP() << "this processor has no AVX-512 VBMI";
  EXPECT_EQ(&best_kernels(), &avx512_kernels());
}
#endif

TEST(BlockCodes, EveryVariantSeesEveryNibbleAtEveryLength) {
  std::mt19937 random(1);
  for (const Kernels* kernels : available_kernels()) {
    for (std::size_t blocks = 0; blocks < 100; ++blocks) {
      std::vector<std::uint8_t> packed(8 * blocks);
      std::vector<std::uint8_t> expected(blocks);
      for (std::size_t block = 0; block < blocks; ++block) {
        expected[block] = static_cast<std::uint8_t>(random() % 8);
        for (std::size_t i = 0; i < 8; ++i) packed[8 * block + i] = random() % 2 == 0 ? 0x88 : 0x08;
        const unsigned position = random() % 16;
        packed[8 * block + position / 2] |= static_cast<std::uint8_t>(expected[block] << (position % 2 * 4));
      }
      std::vector<std::uint8_t> codes(blocks);
      kernels->block_codes(packed.data(), blocks, codes.data());
      ASSERT_EQ(codes, expected) << kernels->name << " " << blocks;
    }
  }
}

}  // namespace
}  // namespace perigee
