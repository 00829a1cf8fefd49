#include "numerics/nvfp4_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"

namespace perigee {
namespace {

constexpr std::uint16_t kMagnitudeMask = 0x7FFF;

std::uint16_t bf16_at(const std::byte* bf16, std::uint64_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, bf16 + 2 * index, sizeof bits);
  return bits;
}

std::uint8_t block_scale(float largest, float scale_2) {
  if (largest == 0) return kE4m3One;
  return std::max(e4m3_encode(largest / (kE2m1Max * scale_2)), kE4m3MinCode);
}

// e2m1_encode() for a magnitude, as a sum of comparisons that a compiler turns into vector code.
std::uint8_t magnitude_code(float magnitude) {
  return static_cast<std::uint8_t>((magnitude > 0.25f) + (magnitude >= 0.75f) + (magnitude > 1.25f) +
                                   (magnitude >= 1.75f) + (magnitude > 2.5f) + (magnitude >= 3.5f) +
                                   (magnitude > 5.0f));
}

}  // namespace

float bf16_largest(std::span<const std::byte> bf16) {
  std::int16_t largest = 0;  // magnitudes order like their bits
  for (std::uint64_t i = 0; i < bf16.size() / 2; ++i) {
    const auto magnitude = static_cast<std::int16_t>(bf16_at(bf16.data(), i) & kMagnitudeMask);
    largest = std::max(largest, magnitude);
  }
  return bf16_value(static_cast<std::uint16_t>(largest));
}

float nvfp4_scale_2(float largest) {
  if (largest == 0) return 1.0f;
  return std::max(largest / (kE2m1Max * kE4m3Max), std::numeric_limits<float>::min());
}

void quantise_nvfp4_blocks(std::span<const std::byte> bf16, float scale_2, std::span<std::byte> nibbles,
                           std::span<std::byte> scales) {
  const std::uint64_t blocks = scales.size();
  if (bf16.size() != blocks * kNvfp4Block * 2 || nibbles.size() != blocks * kNvfp4Block / 2) {
    fail(ErrorCode::kInternal, "{} bytes of bf16 are not {} blocks of NVFP4", bf16.size(), blocks);
  }
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto values = bf16.subspan(block * kNvfp4Block * 2, kNvfp4Block * 2);
    const std::uint8_t scale = block_scale(bf16_largest(values), scale_2);
    scales[block] = std::byte{scale};
    const float divisor = e4m3_value(scale) * scale_2;
    std::array<std::uint8_t, kNvfp4Block> codes;
    for (std::uint64_t i = 0; i < kNvfp4Block; ++i) {
      const float value = bf16_value(bf16_at(values.data(), i)) / divisor;
      const std::uint8_t sign = value < 0 ? kE2m1SignBit : 0;
      codes[i] = magnitude_code(std::fabs(value)) | sign;
    }
    for (std::uint64_t i = 0; i < kNvfp4Block / 2; ++i) {
      nibbles[block * kNvfp4Block / 2 + i] =
          std::byte(static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4));
    }
  }
}

}  // namespace perigee
