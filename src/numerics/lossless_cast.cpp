// The lossless cast. All of it is one table per scale-sharing set; exactness is the business of the caller,
// who knows which bytes are active.
#include "numerics/lossless_cast.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"
#include "numerics/kernels.h"

namespace perigee {
namespace {

constexpr int kTopExponent = 8;  // block scale of the largest exponent: 2^8, the largest power of two of E4M3
constexpr int kBottomExponent = -9;  // the smallest

std::uint8_t power_of_two_code(int exponent) {
  return static_cast<std::uint8_t>(exponent >= -6 ? (exponent + 7) << 3 : 1 << (exponent + 9));
}

// Exponent of an E4M3 power of two, or kTopExponent + 1 for any other code.
int power_of_two_exponent(std::uint8_t code) {
  for (int exponent = kBottomExponent; exponent <= kTopExponent; ++exponent) {
    if (power_of_two_code(exponent) == code) return exponent;
  }
  return kTopExponent + 1;
}

void check_exponent(int max_exponent) {
  if (max_exponent < kMinMaxExponent || max_exponent > 127) {
    fail(ErrorCode::kInternal, "exponent {} has no normal float tensor scale; the cast works for {} to 127",
         max_exponent, kMinMaxExponent);
  }
}

void check_pairs(std::size_t scales, std::size_t blocks) {
  if (blocks / 2 != scales || blocks % 2 != 0) {
    fail(ErrorCode::kInternal, "{} block scales do not go with {} group scales; expected two each", blocks,
         scales);
  }
}

}  // namespace

CastTable make_cast_table(int max_exponent) {
  CastTable table;
  table.max_exponent = max_exponent;
  const int m = max_exponent - kTopExponent;
  for (int byte = 0; byte < 256; ++byte) {
    const int exponent = std::clamp(byte - kE8m0Bias - m, kBottomExponent, kTopExponent);
    table.code[static_cast<std::size_t>(byte)] = power_of_two_code(exponent);
  }
  return table;
}

float cast_scale_2(int max_exponent) {
  check_exponent(max_exponent);
  return std::ldexp(1.0f, max_exponent - kTopExponent);
}

float cast_global_scale(int max_exponent) {
  check_exponent(max_exponent);
  return std::ldexp(1.0f, kTopExponent - max_exponent);
}

void expand_scales(std::span<const std::byte> scales, const CastTable& table, std::span<std::byte> out) {
  expand_scales(scales, table, out, best_kernels());
}

void expand_scales(std::span<const std::byte> scales, const CastTable& table, std::span<std::byte> out,
                   const Kernels& kernels) {
  check_pairs(scales.size(), out.size());
  kernels.expand_pairs(reinterpret_cast<const std::uint8_t*>(scales.data()), scales.size(), table.code.data(),
                       reinterpret_cast<std::uint8_t*>(out.data()));
}

void expand_scales_reference(std::span<const std::byte> scales, const CastTable& table,
                             std::span<std::byte> out) {
  check_pairs(scales.size(), out.size());
  for (std::size_t block = 0; block < out.size(); ++block) {
    out[block] = static_cast<std::byte>(table.code[std::to_integer<std::size_t>(scales[block / 2])]);
  }
}

std::int64_t contract_scales(std::span<const std::byte> blocks, int scale_2_exponent,
                             std::span<std::byte> out) {
  check_pairs(out.size(), blocks.size());
  std::array<int, 256> byte_of_code;  // -1: not a power of two, or outside E8M0
  for (int code = 0; code < 256; ++code) {
    const int exponent = power_of_two_exponent(static_cast<std::uint8_t>(code));
    const int byte = exponent + scale_2_exponent + kE8m0Bias;
    const bool valid = exponent <= kTopExponent && byte >= 0 && byte < kE8m0Nan;
    byte_of_code[static_cast<std::size_t>(code)] = valid ? byte : -1;
  }
  for (std::size_t j = 0; j < out.size(); ++j) {
    const int byte = byte_of_code[std::to_integer<std::size_t>(blocks[2 * j])];
    if (byte < 0 || blocks[2 * j] != blocks[2 * j + 1]) return static_cast<std::int64_t>(j);
    out[j] = static_cast<std::byte>(byte);
  }
  return -1;
}

}  // namespace perigee
