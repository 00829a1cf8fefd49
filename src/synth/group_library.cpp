#include "synth/group_library.h"

#include <algorithm>
#include <cmath>

#include "synth/random.h"

namespace perigee::synth {
namespace {

// Fixed, because the library is the same for every seed; which groups are drawn depends on the seed.
constexpr std::uint64_t kLibraryKey = 0x5067'4C69'6272'6172u;
constexpr std::size_t kGroupSize = 32;
constexpr std::size_t kCodesPerWord = 16;

// E2M1 code of a magnitude below 8 (docs/formats.md): between 0, 0.5, 1, 1.5, 2, 3, 4, 6 a tie goes to the
// even code.
std::uint64_t magnitude_code(double magnitude) {
  if (magnitude <= 0.25) return 0;
  if (magnitude < 0.75) return 1;
  if (magnitude <= 1.25) return 2;
  if (magnitude < 1.75) return 3;
  if (magnitude <= 2.5) return 4;
  if (magnitude < 3.5) return 5;
  if (magnitude <= 5) return 6;
  return 7;
}

}  // namespace

MxGroup quantise_group(std::span<const double> weights) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  MxGroup group{.codes = {0, 0}, .exponent = std::ilogb(largest) - 2};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::uint64_t code = magnitude_code(std::ldexp(weights[i], -group.exponent));
    group.codes[i / kCodesPerWord] |= code << (4 * (i % kCodesPerWord));
  }
  return group;
}

GroupLibrary::GroupLibrary() {
  groups_.reserve(std::size_t{kDeviations} * kGroups);
  std::uint64_t counter = 0;
  for (unsigned deviation = 0; deviation < kDeviations; ++deviation) {
    for (unsigned number = 0; number < kGroups; ++number) {
      std::array<double, kGroupSize> weights;
      for (double& weight : weights) {
        weight = std::abs(normal(kLibraryKey, counter++)) * (1 + deviation / double{kDeviations});
      }
      groups_.push_back(quantise_group(weights));
    }
  }
}

}  // namespace perigee::synth
