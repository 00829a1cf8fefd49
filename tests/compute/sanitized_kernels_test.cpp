// That AddressSanitizer sees what the kernels read and write, although they are compiled with few of its
// checks (cmake/warnings.cmake, support/asan_ranges.cpp). Without it there is nothing to test.
#if defined(__SANITIZE_ADDRESS__)
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "compute/ops.h"

namespace perigee {
namespace {

// One token through a matrix of one row whose last weights are missing.
void multiply_short_row(const std::string& backend, Precision precision) {
  constexpr std::size_t kColumns = 512, kMissing = 4;
  const auto ops = make_ops({precision, 1, backend});
  const auto values = std::make_unique<std::byte[]>(kColumns / 2 - kMissing);
  const auto scales = std::make_unique<std::byte[]>(kColumns / 32);
  Matrix matrix{WeightFormat::kMxfp4, 1, kColumns};
  matrix.values = values.get();
  matrix.scales = scales.get();
  const auto x = std::make_unique<float[]>(kColumns);
  float y = 0;
  ops->linear(matrix, {x.get(), 1, kColumns}, {&y, 1, 1});
}

TEST(SanitizedKernels, AReadBehindTheWeightsIsSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // With bf16 activations the row goes by pairs or whole numbers, where the backend has them, else by floats.
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    for (const std::string& backend : available_backends())
      EXPECT_DEATH(multiply_short_row(backend, precision), "heap-buffer-overflow") << backend;
  }
}

}  // namespace
}  // namespace perigee
#endif
