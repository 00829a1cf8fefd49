#include "checkpoint/plain_values.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "numerics/bf16.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"

namespace perigee {
namespace {

// IEEE formats with `exponent_bits` and `mantissa_bits`: F16 and F8_E5M2.
double small_float_value(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const bool negative = (bits >> (exponent_bits + mantissa_bits) & 1) != 0;
  double magnitude = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = mantissa != 0 ? NAN : INFINITY;
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

template <typename T>
T load(std::span<const std::byte> element) {
  T value;
  std::memcpy(&value, element.data(), sizeof value);
  return value;
}

double element_value(DType dtype, std::span<const std::byte> element) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return load<std::uint8_t>(element);
    case DType::kI8:
      return load<std::int8_t>(element);
    case DType::kF8E5M2:
      return small_float_value(load<std::uint8_t>(element), 5, 2);
    case DType::kF8E4M3:
      return e4m3_value(load<std::uint8_t>(element));
    case DType::kF8E8M0:
      return e8m0_value(load<std::uint8_t>(element));
    case DType::kI16:
      return load<std::int16_t>(element);
    case DType::kU16:
      return load<std::uint16_t>(element);
    case DType::kF16:
      return small_float_value(load<std::uint16_t>(element), 5, 10);
    case DType::kBF16:
      return bf16_value(load<std::uint16_t>(element));
    case DType::kI32:
      return load<std::int32_t>(element);
    case DType::kU32:
      return load<std::uint32_t>(element);
    case DType::kF32:
      return load<float>(element);
    case DType::kF64:
      return load<double>(element);
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(element));
    case DType::kU64:
      return static_cast<double>(load<std::uint64_t>(element));
    default:
      fail(ErrorCode::kInternal, "{} has no plain values", dtype_name(dtype));
  }
}

}  // namespace

std::uint64_t plain_element_bytes(const std::string& tensor, DType dtype) {
  const bool fnuz = dtype == DType::kF8E4M3Fnuz || dtype == DType::kF8E5M2Fnuz;
  if (fnuz || dtype == DType::kC64 || dtype_bits(dtype) % 8 != 0) {
    fail(ErrorCode::kUnsupported, "{} is {}; there is no plain view of that type", tensor, dtype_name(dtype));
  }
  return dtype_bits(dtype) / 8;
}

std::vector<double> plain_values(DType dtype, std::span<const std::byte> bytes) {
  const std::size_t width = dtype_bits(dtype) / 8;
  std::vector<double> values;
  for (std::size_t i = 0; i < bytes.size(); i += width)
    values.push_back(element_value(dtype, bytes.subspan(i, width)));
  return values;
}

}  // namespace perigee
