#include "compute/matrix.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace perigee {
namespace {

template <typename T>
const std::byte* bytes_of(const T& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

TEST(Matrix, ReadsTheLowNibbleAsTheEvenColumn) {
  // Codes 0 … 7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6; the fourth bit is the sign (docs/formats.md).
  std::array<std::uint8_t, 16> packed{};
  packed[0] = 0x71;                               // column 0: 0.5, column 1: 6
  packed[15] = 0xF2;                              // column 30: 1, column 31: -6
  const std::array<std::uint8_t, 1> scales{128};  // 2^1
  const Matrix m{WeightFormat::kMxfp4, 1, 32, bytes_of(packed), bytes_of(scales), 1};
  EXPECT_EQ(matrix_element(m, 0, 0), 0.5f);
  EXPECT_EQ(matrix_element(m, 0, 1), 6.0f);
  EXPECT_EQ(matrix_element(m, 0, 30), 1.0f);
  EXPECT_EQ(matrix_element(m, 0, 31), -6.0f);
  EXPECT_EQ(matrix_scale(m, 0, 31), 2.0f);
  EXPECT_EQ(matrix_bytes(m), 17u);
}

TEST(Matrix, HasOneScalePerSixteenColumnsInNvfp4) {
  const std::array<std::uint8_t, 32> packed{};
  const std::array<std::uint8_t, 4> scales{0x38, 0x40, 0x30, 0x7E};  // 1, 2, 0.5, 448
  const Matrix m{WeightFormat::kNvfp4, 2, 32, bytes_of(packed), bytes_of(scales), 1};
  EXPECT_EQ(matrix_scale(m, 0, 15), 1.0f);
  EXPECT_EQ(matrix_scale(m, 0, 16), 2.0f);
  EXPECT_EQ(matrix_scale(m, 1, 0), 0.5f);
  EXPECT_EQ(matrix_scale(m, 1, 31), 448.0f);
}

TEST(Matrix, HasOneScalePerTileInFp8) {
  const std::vector<std::uint8_t> values(200 * 130, 0x38);
  const std::array<float, 4> scales{1, 2, 3, 4};
  const Matrix m{WeightFormat::kFp8Tile, 200, 130, bytes_of(values), bytes_of(scales), 1};
  EXPECT_EQ(matrix_element(m, 199, 129), 1.0f);
  EXPECT_EQ(matrix_scale(m, 127, 127), 1.0f);
  EXPECT_EQ(matrix_scale(m, 127, 128), 2.0f);
  EXPECT_EQ(matrix_scale(m, 128, 0), 3.0f);
  EXPECT_EQ(matrix_scale(m, 199, 129), 4.0f);
  EXPECT_EQ(matrix_bytes(m), 200u * 130u + 16u);
}

}  // namespace
}  // namespace perigee
