// Random matrices and activations for the tests of the backends, and the comparison they all end in: equal
// bits. The generator is our own, so that a failing case is the same case on every machine.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "numerics/bf16.h"

namespace perigee::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  std::uint32_t below(std::uint32_t limit) { return bits() % limit; }
  // About normal, `size` wide.
  float value(float size) {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(bits() >> 8) * 0x1p-24f - 0.5f;
    return sum * size * 1.7f;
  }

 private:
  std::uint64_t state_;
};

enum class Values {
  kOrdinary,
  kExtreme,  // zeros of both signs, subnormals, magnitudes from 2^-140 to 2^60
};

inline float random_value(Random& random, Values values, float size) {
  if (values == Values::kOrdinary) return random.value(size);
  switch (random.below(8)) {
    case 0:
      return random.below(2) != 0 ? 0.0f : -0.0f;
    case 1:
      return std::bit_cast<float>((random.bits() & 0x80000000u) | (random.bits() & 0x7FFFFFu));
    default:
      return std::ldexp(random.value(1), static_cast<int>(random.below(200)) - 140);
  }
}

inline Tensor random_rows(Random& random, std::size_t rows, std::size_t width, Precision precision,
                          Values values = Values::kOrdinary, float size = 1) {
  Tensor tensor(rows, width);
  for (float& value : tensor.values()) {
    value = random_value(random, values, size);
    if (precision == Precision::kBf16) value = round_to_bf16(value);
  }
  return tensor;
}

struct OwnedMatrix {
  Matrix view;
  std::vector<std::byte> values, scales;
};

// Scales in the middle of their range, or anywhere in it, NaN left out.
inline OwnedMatrix random_matrix(Random& random, WeightFormat format, std::size_t rows, std::size_t columns,
                                 Values values = Values::kOrdinary) {
  OwnedMatrix owned;
  owned.view = {format, rows, columns, nullptr, nullptr, format == WeightFormat::kNvfp4 ? 0.37f : 1.0f};
  const auto put = [](std::vector<std::byte>& bytes, auto value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  };
  const std::size_t count = rows * columns;
  const bool ordinary = values == Values::kOrdinary;
  const auto e4m3 = [&] {
    std::uint32_t code = random.below(256);
    if ((code & 0x7F) == 0x7F) code ^= 1;
    return static_cast<std::uint8_t>(ordinary && format == WeightFormat::kNvfp4 ? 0x30 + code % 16 : code);
  };
  switch (format) {
    case WeightFormat::kF32:
      for (std::size_t i = 0; i < count; ++i) put(owned.values, random_value(random, values, 1));
      break;
    case WeightFormat::kBf16:
      for (std::size_t i = 0; i < count; ++i) put(owned.values, bf16_round(random_value(random, values, 1)));
      break;
    case WeightFormat::kMxfp4:
    case WeightFormat::kNvfp4:
      for (std::size_t i = 0; i < count / 2; ++i)
        put(owned.values, static_cast<std::uint8_t>(random.below(256)));
      for (std::size_t i = 0; i < count / (format == WeightFormat::kMxfp4 ? 32 : 16); ++i) {
        if (format == WeightFormat::kNvfp4) {
          put(owned.scales, e4m3());
        } else {
          put(owned.scales, static_cast<std::uint8_t>(ordinary ? 120 + random.below(12) : random.below(180)));
        }
      }
      break;
    case WeightFormat::kFp8Tile:
      for (std::size_t i = 0; i < count; ++i) put(owned.values, e4m3());
      for (std::size_t i = 0; i < (rows + 127) / 128 * ((columns + 127) / 128); ++i)
        put(owned.scales, std::fabs(random_value(random, values, 0.01f)) + 0x1p-140f);
      break;
  }
  owned.view.values = owned.values.data();
  owned.view.scales = owned.scales.empty() ? nullptr : owned.scales.data();
  return owned;
}

// Equal bits; a NaN equals any NaN, because which one an addition gives depends on the order of its operands.
inline ::testing::AssertionResult same_bits(ConstRows found, ConstRows expected) {
  if (found.rows != expected.rows || found.width != expected.width)
    return ::testing::AssertionFailure() << "shapes differ";
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float a = found.data[i], b = expected.data[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b)) continue;
    return ::testing::AssertionFailure()
           << "row " << i / found.width << ", column " << i % found.width << ": " << a << " for " << b
           << ::testing::PrintToString(std::bit_cast<std::uint32_t>(a)) << " "
           << std::bit_cast<std::uint32_t>(b);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace perigee::test
