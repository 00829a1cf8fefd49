#include "convert/module_record.h"

#include <algorithm>

#include "numerics/lossless_cast.h"

namespace perigee {

ModuleRecord make_module_record(const Mxfp4Scan& scan, int max_exponent) {
  ModuleRecord record;
  record.max_exponent = max_exponent;
  if (scan.any_active()) {
    record.own_max_exponent = scan.max_exponent();
    record.min_exponent = scan.min_exponent();
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::uint64_t active = scan.active[byte];
    record.groups += active + scan.zero[byte];
    record.zero_groups += scan.zero[byte];
    if (active == 0) continue;
    const int below = std::clamp(max_exponent - (byte - 127), 0, kSpanBins - 1);
    record.span_histogram[below] += active;
    if (below > kExactSpan) record.over_span_groups += active;
    if (below > kMarlinSafeSpan && below <= kExactSpan) record.marlin_unsafe_blocks += 2 * active;
  }
  record.negative_zero_nibbles = scan.negative_zero_nibbles;
  record.byte_00_groups = scan.active[0] + scan.zero[0];
  record.byte_ff_groups = scan.active[255] + scan.zero[255];
  return record;
}

}  // namespace perigee
