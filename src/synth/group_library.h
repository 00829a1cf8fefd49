// MXFP4 groups of 32 normally distributed weights, quantised once by the release's rule and then drawn at
// random with random signs. That is what makes real-size shards as fast as the disk; the statistics of codes
// and scales are those of quantised normal weights.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace perigee::synth {

// Codes of 32 magnitudes (no signs), element 2i in the low nibble of byte i; little-endian words of 8 bytes.
struct MxGroup {
  std::array<std::uint64_t, 2> codes;
  std::int32_t exponent = 0;  // of the shared scale, for a row whose deviation lies in [1, 2)
};

// The rule: exponent = floor(log2(largest magnitude)) - 2, codes rounded to nearest even and saturated. The
// largest magnitude so becomes 4 or 6. `weights` are 32 magnitudes, not all zero.
MxGroup quantise_group(std::span<const double> weights);

class GroupLibrary {
 public:
  static constexpr unsigned kDeviations = 16;  // of a row: 1, 1 1/16, …, 1 15/16
  static constexpr unsigned kGroups = 512;     // per deviation

  GroupLibrary();
  const MxGroup& group(unsigned deviation, unsigned number) const {
    return groups_[deviation * kGroups + number];
  }

 private:
  std::vector<MxGroup> groups_;
};

}  // namespace perigee::synth
