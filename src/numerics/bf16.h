// bf16 as the upper half of a float. The definitions behind every bf16 step of the libraries we reproduce;
// deliberately no arithmetic type: callers compute in float and round where the library does.
#pragma once

#include <bit>
#include <cstdint>

namespace perigee {

constexpr float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; subnormals are kept, overflow goes to infinity, every NaN becomes 0x7FC0
// (as PyTorch).
constexpr std::uint16_t bf16_round(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0;
  const std::uint32_t half_minus_tie = 0x7FFFu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>((bits + half_minus_tie) >> 16);
}

constexpr float round_to_bf16(float value) {
  return bf16_value(bf16_round(value));
}

}  // namespace perigee
