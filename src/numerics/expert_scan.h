// One pass over an MXFP4 module that learns everything conversion decides on: how many groups have which
// scale byte, which of them are all zero, and the largest nibble under each scale byte. The statistics add
// up, so a module may be scanned in pieces and several modules may share one scale (w1 and w3 of an expert).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace perigee {

struct Kernels;  // numerics/kernels.h

struct Mxfp4Scan {
  // Groups of 32 by E8M0 byte. A group is active if any nibble is neither +0 nor -0.
  std::array<std::uint64_t, 256> active{};
  std::array<std::uint64_t, 256> zero{};
  // Largest magnitude code (0..7) among the nibbles of active groups with this byte; 0 where there are none.
  std::array<std::uint8_t, 256> max_code{};
  std::uint64_t negative_zero_nibbles = 0;  // code 8
  std::uint64_t zero_nibbles = 0;           // codes 0 and 8

  void add(const Mxfp4Scan& other);
  bool any_active() const;
  int max_exponent() const;  // k = byte - 127 of the largest active byte; only if any_active()
  int min_exponent() const;
  // Largest |value| as code value times 2^k, split so that it cannot overflow: largest code at its byte. Only
  // if any_active().
  struct Largest {
    std::uint8_t code;  // 1..7
    std::uint8_t byte;  // E8M0
  };
  Largest largest_value() const;
};

// packed: [rows, in/2] nibble pairs, low nibble first; scales: [rows, in/32] E8M0 bytes; both contiguous, so
// group j is packed[16 j, 16 j + 16) with scales[j].
void scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales, Mxfp4Scan& scan);
// The same, and copies packed to packed_out (same size, any alignment, no overlap) in the same pass.
void copy_and_scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales,
                         std::span<std::byte> packed_out, Mxfp4Scan& scan);
// Both with a chosen instruction set instead of the fastest; the result is the same.
void scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales, Mxfp4Scan& scan,
                const Kernels& kernels);
void copy_and_scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales,
                         std::span<std::byte> packed_out, Mxfp4Scan& scan, const Kernels& kernels);
// The definition, one nibble at a time.
void scan_mxfp4_reference(std::span<const std::byte> packed, std::span<const std::byte> scales,
                          Mxfp4Scan& scan);

}  // namespace perigee
