// Statistics of MXFP4 modules. The kernels find the largest code of each group; what is done with it is here,
// once for all instruction sets.
#include "numerics/expert_scan.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <vector>

#include "base/error.h"
#include "numerics/e2m1.h"
#include "numerics/e8m0.h"
#include "numerics/kernels.h"

namespace perigee {
namespace {

constexpr std::size_t kGroupBytes = 16;
constexpr std::size_t kChunkGroups = 512;  // 8 KiB of nibbles: their codes stay in the first-level cache
constexpr std::size_t kLanes = 4;
constexpr std::size_t kKeys = 256 * 8;
// Keeps one key's counters in different tables at different addresses modulo 4 KiB, where the processor would
// take a load from one for a load from the other and wait (a scan is 5 % faster).
constexpr std::size_t kPadding = 16;
constexpr std::size_t kMaxTallyGroups = std::size_t{1} << 31;  // keeps the 32-bit counters from wrapping

const std::uint8_t* bytes_of(std::span<const std::byte> data) {
  return reinterpret_cast<const std::uint8_t*>(data.data());
}

void check_sizes(std::span<const std::byte> packed, std::span<const std::byte> scales) {
  if (packed.size() / kGroupBytes != scales.size() || packed.size() % kGroupBytes != 0) {
    fail(ErrorCode::kInternal,
         "{} bytes of MXFP4 nibbles do not go with {} group scales; expected 16 bytes each", packed.size(),
         scales.size());
  }
}

// Counts groups by (scale byte, largest code). One key answers everything the scan asks about groups: code 0
// is a zero group, and the largest code with a count is the maximum. Neighbouring groups mostly have the same
// key, so they count in different tables, or each increment would wait for the store of the one before.
class GroupTally {
 public:
  void count(const std::uint8_t* scales, const std::uint8_t* codes, std::size_t groups) {
    std::array<std::uint16_t, kChunkGroups> keys;
    for (std::size_t j = 0; j < groups; ++j) keys[j] = static_cast<std::uint16_t>(scales[j] * 8 + codes[j]);
    std::size_t j = 0;
    for (; j + kLanes <= groups; j += kLanes) {
      ++counts_[0][keys[j]];
      ++counts_[1][keys[j + 1]];
      ++counts_[2][keys[j + 2]];
      ++counts_[3][keys[j + 3]];
    }
    for (; j < groups; ++j) ++counts_[0][keys[j]];
  }

  void add_to(Mxfp4Scan& scan) const {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::array<std::uint32_t, 8> seen{};  // most bytes never occur: find that out in one vector operation
      for (const auto& lane : counts_) {
        for (std::size_t code = 0; code < 8; ++code) seen[code] |= lane[byte * 8 + code];
      }
      for (std::uint8_t code = 0; code < 8; ++code) {
        if (seen[code] != 0) add_key(byte, code, scan);
      }
    }
  }

 private:
  void add_key(std::size_t byte, std::uint8_t code, Mxfp4Scan& scan) const {
    for (const auto& lane : counts_) (code == 0 ? scan.zero : scan.active)[byte] += lane[byte * 8 + code];
    scan.max_code[byte] = std::max(scan.max_code[byte], code);
  }

  std::array<std::array<std::uint32_t, kKeys + kPadding>, kLanes> counts_{};
};

void scan_groups(const std::uint8_t* packed, const std::uint8_t* scales, std::size_t groups,
                 std::uint8_t* copy, const Kernels& kernels, Mxfp4Scan& scan) {
  GroupTally tally;
  ZeroNibbles nibbles;
  std::array<std::uint8_t, kChunkGroups> codes;
  for (std::size_t first = 0; first < groups; first += kChunkGroups) {
    const std::size_t count = std::min(kChunkGroups, groups - first);
    std::uint8_t* chunk_copy = copy == nullptr ? nullptr : copy + first * kGroupBytes;
    kernels.group_codes(packed + first * kGroupBytes, count, chunk_copy, codes.data(), nibbles);
    tally.count(scales + first, codes.data(), count);
  }
  tally.add_to(scan);
  scan.zero_nibbles += nibbles.zero;
  scan.negative_zero_nibbles += nibbles.negative_zero;
}

void scan_slices(std::span<const std::byte> packed, std::span<const std::byte> scales, std::uint8_t* copy,
                 const Kernels& kernels, Mxfp4Scan& scan) {
  check_sizes(packed, scales);
  for (std::size_t first = 0; first < scales.size(); first += kMaxTallyGroups) {
    const std::size_t count = std::min(kMaxTallyGroups, scales.size() - first);
    const std::size_t offset = first * kGroupBytes;
    scan_groups(bytes_of(packed) + offset, bytes_of(scales) + first, count,
                copy == nullptr ? nullptr : copy + offset, kernels, scan);
  }
}

// Comparable across bytes: a code's value is a whole number of halves, so exponent and mantissa order it.
// Only for codes 1..7.
struct Magnitude {
  int exponent;
  float mantissa;
  auto operator<=>(const Magnitude&) const = default;
};

Magnitude magnitude_of(std::uint8_t code, int byte) {
  int exponent = 0;
  const float mantissa = std::frexp(e2m1_value(code), &exponent);
  return {exponent + byte, mantissa};
}

}  // namespace

void Mxfp4Scan::add(const Mxfp4Scan& other) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    active[byte] += other.active[byte];
    zero[byte] += other.zero[byte];
    max_code[byte] = std::max(max_code[byte], other.max_code[byte]);
  }
  negative_zero_nibbles += other.negative_zero_nibbles;
  zero_nibbles += other.zero_nibbles;
}

bool Mxfp4Scan::any_active() const {
  return std::any_of(active.begin(), active.end(), [](std::uint64_t count) { return count != 0; });
}

int Mxfp4Scan::max_exponent() const {
  for (int byte = 255; byte >= 0; --byte) {
    if (active[static_cast<std::size_t>(byte)] != 0) return byte - kE8m0Bias;
  }
  fail(ErrorCode::kInternal, "a scan without active groups has no largest exponent; ask any_active() first");
}

int Mxfp4Scan::min_exponent() const {
  for (int byte = 0; byte < 256; ++byte) {
    if (active[static_cast<std::size_t>(byte)] != 0) return byte - kE8m0Bias;
  }
  fail(ErrorCode::kInternal, "a scan without active groups has no smallest exponent; ask any_active() first");
}

Mxfp4Scan::Largest Mxfp4Scan::largest_value() const {
  Largest best{0, 0};
  for (int byte = 255; byte >= 0; --byte) {
    const std::uint8_t code = max_code[static_cast<std::size_t>(byte)];
    if (code == 0) continue;
    if (best.code == 0 || magnitude_of(code, byte) > magnitude_of(best.code, best.byte)) {
      best = {code, static_cast<std::uint8_t>(byte)};
    }
  }
  if (best.code == 0) {
    fail(ErrorCode::kInternal, "a scan without active groups has no largest value; ask any_active() first");
  }
  return best;
}

void scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales, Mxfp4Scan& scan) {
  scan_mxfp4(packed, scales, scan, best_kernels());
}

void scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales, Mxfp4Scan& scan,
                const Kernels& kernels) {
  scan_slices(packed, scales, nullptr, kernels, scan);
}

void copy_and_scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales,
                         std::span<std::byte> packed_out, Mxfp4Scan& scan) {
  copy_and_scan_mxfp4(packed, scales, packed_out, scan, best_kernels());
}

void copy_and_scan_mxfp4(std::span<const std::byte> packed, std::span<const std::byte> scales,
                         std::span<std::byte> packed_out, Mxfp4Scan& scan, const Kernels& kernels) {
  if (packed_out.size() != packed.size()) {
    fail(ErrorCode::kInternal, "the copy of {} bytes of nibbles has room for {}", packed.size(),
         packed_out.size());
  }
  scan_slices(packed, scales, reinterpret_cast<std::uint8_t*>(packed_out.data()), kernels, scan);
}

void scan_mxfp4_reference(std::span<const std::byte> packed, std::span<const std::byte> scales,
                          Mxfp4Scan& scan) {
  check_sizes(packed, scales);
  for (std::size_t group = 0; group < scales.size(); ++group) {
    std::uint8_t largest = 0;
    for (std::size_t element = 0; element < 32; ++element) {
      const auto pair = std::to_integer<std::uint8_t>(packed[group * kGroupBytes + element / 2]);
      const std::uint8_t code = element % 2 == 0 ? pair & 15 : pair >> 4;
      const std::uint8_t magnitude = code & 7;
      largest = std::max(largest, magnitude);
      if (magnitude == 0) ++scan.zero_nibbles;
      if (code == kE2m1SignBit) ++scan.negative_zero_nibbles;
    }
    const auto byte = std::to_integer<std::size_t>(scales[group]);
    ++(largest == 0 ? scan.zero : scan.active)[byte];
    scan.max_code[byte] = std::max(scan.max_code[byte], largest);
  }
}

}  // namespace perigee
