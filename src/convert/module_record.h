// What is remembered of each converted expert module: the facts of the report, a few dozen bytes each.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "numerics/expert_scan.h"

namespace perigee {

inline constexpr int kSpanBins = 19;  // d = 0..17, and everything below

struct ModuleRecord {
  std::string name;
  std::string action;        // "cast", "saturate", "requant", "requant-4over6", "transcode"
  int max_exponent = 0;      // K of the scale-sharing set
  int own_max_exponent = 0;  // of this module alone
  int min_exponent = 0;      // k_min over active groups
  std::uint64_t groups = 0;
  std::uint64_t zero_groups = 0;
  std::uint64_t over_span_groups = 0;
  std::uint64_t marlin_unsafe_blocks = 0;  // blocks of 16 with d in 15..17
  std::uint64_t negative_zero_nibbles = 0;
  std::uint64_t byte_00_groups = 0;
  std::uint64_t byte_ff_groups = 0;
  std::array<std::uint64_t, kSpanBins> span_histogram{};  // active groups of 32 by d = K - k
};

// Fills everything but name and action. All exponents are 0 for a module of zeros.
ModuleRecord make_module_record(const Mxfp4Scan& scan, int max_exponent);

}  // namespace perigee
