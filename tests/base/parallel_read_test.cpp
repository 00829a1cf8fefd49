#include "base/parallel_read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  std::mt19937 random(seed);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

class ParallelRead : public ::testing::TestWithParam<unsigned> {
 protected:
  File file_of(const std::string& name, std::span<const std::byte> bytes) {
    File::create(folder_ / name).write_exact(bytes, 0);
    return File::open_read(folder_ / name);
  }
  test::TempDir folder_;
  ThreadPool pool_{GetParam()};
};

TEST_P(ParallelRead, FillsStretchesOfAnySizeFromSeveralFiles) {
  const std::vector<std::byte> a = random_bytes((std::size_t{9} << 20) + 5, 1), b = random_bytes(777, 2);
  const File file_a = file_of("a", a), file_b = file_of("b", b);
  std::vector<std::byte> whole(a.size() - 3), one(1), middle(500), none;
  const std::vector<FileStretch> stretches = {
      {&file_a, 3, whole}, {&file_b, 776, one}, {&file_b, 0, none}, {&file_b, 100, middle}};
  read_stretches(pool_, stretches);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), a.begin() + 3));
  EXPECT_EQ(one[0], b[776]);
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), b.begin() + 100));
}

TEST_P(ParallelRead, NamesTheFileThatEndsEarly) {
  const File good = file_of("good", random_bytes(100, 3)), cut = file_of("cut", random_bytes(99, 4));
  std::vector<std::byte> memory(200);
  const std::vector<FileStretch> stretches = {{&good, 0, std::span(memory).first(100)},
                                              {&cut, 0, std::span(memory).last(100)}};
  EXPECT_ERROR(read_stretches(pool_, stretches), ErrorCode::kCorrupt, "cut");
}

TEST_P(ParallelRead, OfNothingDoesNothing) {
  read_stretches(pool_, {});
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelRead, ::testing::Values(1u, 3u));

}  // namespace
}  // namespace perigee
