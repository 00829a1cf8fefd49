#include "survey/span_decision.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "numerics/e8m0.h"
#include "numerics/lossless_cast.h"

namespace perigee {
namespace {

constexpr std::size_t kMaxRuns = 128;  // per piece; beyond that reading everything is no worse
constexpr int kLargestSafeByte = 252;  // 6 * 2^125 is the largest value of this byte and fits a float
constexpr int kSmallestByte = kMinMaxExponent + kE8m0Bias;

int largest_byte(const std::array<std::uint64_t, 256>& groups) {
  int byte = kE8m0Nan - 1;
  while (byte > 0 && groups[byte] == 0) --byte;
  return byte;
}

int smallest_byte(const std::array<std::uint64_t, 256>& groups) {
  int byte = 0;
  while (byte < kE8m0Nan - 1 && groups[byte] == 0) ++byte;
  return byte;
}

std::uint64_t groups_below(const std::array<std::uint64_t, 256>& groups, int limit) {
  std::uint64_t sum = 0;
  for (int byte = 0; byte < limit; ++byte) sum += groups[byte];
  return sum;
}

bool overflows_float(const Mxfp4Scan& scan) {
  for (int byte = kLargestSafeByte + 1; byte < kE8m0Nan; ++byte) {
    if (scan.active[byte] > 0 &&
        std::isinf(mxfp4_value(scan.max_code[byte], static_cast<std::uint8_t>(byte)))) {
      return true;
    }
  }
  return false;
}

}  // namespace

ScaleBytes count_scale_bytes(std::span<const std::byte> scales) {
  ScaleBytes result;
  for (const std::byte scale : scales) ++result.groups[static_cast<std::uint8_t>(scale)];
  const int limit = largest_byte(result.groups) - kExactSpan;
  if (limit <= 0 || groups_below(result.groups, limit) == 0) return result;
  for (std::uint32_t group = 0; group < scales.size(); ++group) {
    if (static_cast<int>(scales[group]) >= limit) continue;
    auto& runs = result.far_below;
    if (!runs.empty() && runs.back().first + runs.back().second == group) {
      ++runs.back().second;
    } else if (runs.size() < kMaxRuns) {
      runs.emplace_back(group, 1);
    } else {
      runs.clear();
      return result;
    }
  }
  return result;
}

bool all_nibbles_zero(std::span<const std::byte> packed) {
  return std::ranges::all_of(packed, [](std::byte pair) { return (pair & std::byte{0x77}) == std::byte{0}; });
}

SpanDecision::SpanDecision(std::int32_t layer, std::int32_t expert, bool gate_up) {
  result_.layer = layer;
  result_.expert = expert;
  result_.gate_up = gate_up;
}

void SpanDecision::add_scales(const ExpertModulePlace* module, std::uint64_t first_group,
                              const ScaleBytes& bytes) {
  for (std::size_t byte = 0; byte < bytes.groups.size(); ++byte) scan_.active[byte] += bytes.groups[byte];
  for (const auto& [first, count] : bytes.far_below) runs_.push_back({module, first_group + first, count});
}

void SpanDecision::finish_scales() {
  const int largest = largest_byte(scan_.active);
  const std::uint64_t low = groups_below(scan_.active, largest - kExactSpan);
  if (scan_.active[kE8m0Nan] > 0) {
    summarise();  // refused whatever the nibbles are
    return;
  }
  std::uint64_t listed = 0;
  for (const GroupRun& run : runs_) listed += run.count;
  const int smallest_that_fits = std::max(largest - kExactSpan, smallest_byte(scan_.active));
  if (largest > kLargestSafeByte || smallest_that_fits < kSmallestByte) {
    needs_ = SpanEvidence::kAllNibbles;
  } else if (low > 0) {
    needs_ = listed == low ? SpanEvidence::kOffendingGroups : SpanEvidence::kAllNibbles;
  } else {
    summarise();
  }
  if (needs_ == SpanEvidence::kAllNibbles) scan_ = Mxfp4Scan{};
}

void SpanDecision::finish_offending() {
  runs_ = {};
  if (offending_active_) {
    needs_ = SpanEvidence::kAllNibbles;
    scan_ = Mxfp4Scan{};
    return;
  }
  const int limit = largest_byte(scan_.active) - kExactSpan;
  for (int byte = 0; byte < limit; ++byte) scan_.zero[byte] += std::exchange(scan_.active[byte], 0);
  result_.evidence = SpanEvidence::kOffendingGroups;
  summarise();
}

void SpanDecision::add_scan(const Mxfp4Scan& scan) {
  scan_.add(scan);
}

void SpanDecision::finish_scan() {
  result_.evidence = SpanEvidence::kAllNibbles;
  summarise();
}

void SpanDecision::summarise() {
  needs_ = SpanEvidence::kScales;
  runs_ = {};
  SetSpan& set = result_;
  for (int byte = 0; byte < 256; ++byte) {
    set.active_groups += scan_.active[byte];
    set.groups += scan_.active[byte] + scan_.zero[byte];
  }
  set.byte_00_groups = scan_.active[0] + scan_.zero[0];
  set.byte_ff_groups = scan_.active[kE8m0Nan] + scan_.zero[kE8m0Nan];
  set.any_active = set.active_groups > scan_.active[kE8m0Nan];
  if (set.any_active) {
    set.max_exponent = largest_byte(scan_.active) - kE8m0Bias;
    set.min_exponent = smallest_byte(scan_.active) - kE8m0Bias;
  }
  for (int byte = 0; byte < kE8m0Nan; ++byte) {
    if (scan_.active[byte] == 0) continue;
    const auto d = static_cast<std::size_t>(set.max_exponent - (byte - kE8m0Bias));
    histogram_[std::min(d, kSurveyBins - 1)] += scan_.active[byte];
  }
  set.over_span_groups = histogram_[kSurveyBins - 1];
  for (int d = kMarlinSafeSpan + 1; d <= kExactSpan; ++d) set.marlin_unsafe_blocks += 2 * histogram_[d];
  if (set.byte_ff_groups > 0) {
    set.verdict = SpanVerdict::kNanScale;
  } else if (overflows_float(scan_)) {
    set.verdict = SpanVerdict::kBeyondFloat;
  } else if (set.any_active && set.max_exponent < kMinMaxExponent) {
    set.verdict = SpanVerdict::kTooSmall;
  } else if (set.over_span_groups > 0) {
    set.verdict = SpanVerdict::kOverSpan;
  }
}

}  // namespace perigee
