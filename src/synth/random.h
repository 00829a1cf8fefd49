// Counter-based randomness: any value of any tensor is computed on its own, from (seed, name, position).
// Arithmetic on integers only, so that the same seed gives the same bytes on every machine. Not for
// cryptography.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash.h"

namespace perigee::synth {

// The output function of SplitMix64 at position `counter` of the stream `key`.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t x = key + (counter + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The stream of one tensor or module.
inline std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  return random_bits(xxh3_64(std::as_bytes(std::span(name))), seed);
}

// A further stream of the same owner.
constexpr std::uint64_t substream(std::uint64_t key, std::uint64_t number) {
  return random_bits(key ^ 0xD6E8FEB86659FD93u, number);
}

// True with probability `fraction` (0…1).
constexpr bool chance(std::uint64_t bits, double fraction) {
  return static_cast<double>(bits >> 11) * 0x1p-53 < fraction;
}

// Approximately normal, mean 0, deviation 1, within ±6: the sum of twelve uniform 16-bit numbers. Exact
// arithmetic.
constexpr double normal(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t sum = 0;
  for (std::uint64_t part = 0; part < 3; ++part) {
    const std::uint64_t bits = random_bits(key, counter * 3 + part);
    sum += (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
  }
  return (static_cast<double>(sum) + 6.0) * 0x1p-16 - 6.0;
}

}  // namespace perigee::synth
