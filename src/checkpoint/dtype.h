// Element types of a safetensors file (spec: the dtype strings of huggingface/safetensors).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace perigee {

enum class DType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

// Bits of one element; F4 is 4, F6 is 6. A tensor's bits must total whole bytes.
std::uint32_t dtype_bits(DType dtype);
// The spelling in a file, e.g. "BF16", "F8_E4M3".
std::string_view dtype_name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace perigee
