// What to do with a set of modules that share one tensor scale, decided from their scan: cast it without
// loss, treat it by an explicit policy, or refuse it with the place of the first offending block.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "numerics/expert_scan.h"
#include "numerics/requantise.h"

namespace perigee {

enum class Method {
  kCast,         // lossless; the default
  kRequant,      // the target library's own min-max requantisation
  kFourOverSix,  // per block the better of amax/6 and amax/4
};

enum class OverSpan { kFail, kSaturate, kRequant };
enum class NanScale { kFail, kZeroGroupsOk };
enum class MaxOver { kActiveGroups, kAllNonzeroBytes };  // the latter reproduces ModelOpt's choice of K

struct ScalePolicy {
  Method method = Method::kCast;
  OverSpan over_span = OverSpan::kFail;
  NanScale nan_scale = NanScale::kFail;
  MaxOver max_over = MaxOver::kActiveGroups;
  RequantMethod requant_method = RequantMethod::kModelOptMax;  // the library that owns the target layout
};

// One module of the set, with its bytes, for finding the place of an offence.
struct ScannedModule {
  std::string name;
  std::uint64_t groups_per_row = 0;
  std::span<const std::byte> nibbles;
  std::span<const std::byte> scales;
  Mxfp4Scan scan;
};

struct ScaleDecision {
  bool cast = true;  // else requantise with `method`
  RequantMethod method = RequantMethod::kSaturate;
  int max_exponent = 0;  // K; 0 for a set of zeros
  Mxfp4Scan set;         // sum over the modules
};

// Groups of the scan that lie more than kExactSpan binades below K.
std::uint64_t over_span_groups(const Mxfp4Scan& scan, int max_exponent);

// Throws kUnsupported for a NaN scale, a value beyond float's range or a K too small for a float, kLossy for
// an over-span set under OverSpan::kFail; the sentence names module, row and group.
ScaleDecision decide_scale(std::span<const ScannedModule> modules, const ScalePolicy& policy);

}  // namespace perigee
