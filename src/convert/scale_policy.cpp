#include "convert/scale_policy.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "numerics/lossless_cast.h"

namespace perigee {
namespace {

constexpr int kNanByte = 255;
constexpr int kBias = 127;

// The first group of the set for which `offends(byte, active)` holds, as "module row R group G".
std::string first_place(std::span<const ScannedModule> modules,
                        const std::function<bool(std::uint8_t, bool)>& offends) {
  for (const ScannedModule& module : modules) {
    for (std::uint64_t group = 0; group < module.scales.size(); ++group) {
      Mxfp4Scan one;
      scan_mxfp4_reference(module.nibbles.subspan(group * 16, 16), module.scales.subspan(group, 1), one);
      const auto byte = static_cast<std::uint8_t>(module.scales[group]);
      if (offends(byte, one.any_active())) {
        return fmt::format("{} row {} group {} (scale byte {})", module.name, group / module.groups_per_row,
                           group % module.groups_per_row, byte);
      }
    }
  }
  return "?";
}

void refuse_nan(std::span<const ScannedModule> modules, const Mxfp4Scan& set, NanScale policy) {
  if (set.active[kNanByte] > 0) {
    fail(ErrorCode::kUnsupported, "NaN scale at {}: these weights have no value, so no layout can hold them",
         first_place(modules, [](std::uint8_t byte, bool active) { return byte == kNanByte && active; }));
  }
  if (set.zero[kNanByte] > 0 && policy == NanScale::kFail) {
    fail(ErrorCode::kUnsupported,
         "NaN scale at {}: all its weights are zero; --nan-scale zero-groups-ok gives it an ordinary scale",
         first_place(modules, [](std::uint8_t byte, bool) { return byte == kNanByte; }));
  }
}

// 6 * 2^126 and 2 * 2^127 are beyond float and bf16; smaller nibbles under the same scale are not.
bool overflows_float(int byte, int code) {
  return (byte == 254 && code >= 4) || (byte == 253 && code >= 6);
}

void refuse_overflow(std::span<const ScannedModule> modules, const Mxfp4Scan& set) {
  for (int byte = 253; byte <= 254; ++byte) {
    if (set.active[byte] == 0 || !overflows_float(byte, set.max_code[byte])) continue;
    fail(ErrorCode::kUnsupported, "{} holds a value beyond the largest float; no engine can compute with it",
         first_place(modules, [byte](std::uint8_t b, bool active) { return b == byte && active; }));
  }
}

// ModelOpt's rule: every group counts whose byte is not 0x00, even a zero group, and a module without any
// such byte counts as 2^0.
int largest_byte_exponent(const Mxfp4Scan& module) {
  for (int byte = 254; byte > 0; --byte) {
    if (module.active[byte] + module.zero[byte] > 0) return byte - kBias;
  }
  return 0;
}

int largest_exponent(std::span<const ScannedModule> modules, const Mxfp4Scan& set, MaxOver rule) {
  if (rule == MaxOver::kActiveGroups) return set.any_active() ? set.max_exponent() : 0;
  int largest = largest_byte_exponent(modules.front().scan);
  for (const ScannedModule& module : modules) largest = std::max(largest, largest_byte_exponent(module.scan));
  return largest;
}

[[noreturn]] void refuse_over_span(std::span<const ScannedModule> modules, const ScaleDecision& decision) {
  const int smallest = decision.max_exponent - kExactSpan;
  std::uint64_t groups = over_span_groups(decision.set, decision.max_exponent);
  fail(ErrorCode::kLossy,
       "{} is more than {} binades below the largest scale 2^{} of its set ({} groups are); a lossless cast "
       "is not "
       "possible, choose --over-span saturate or requant",
       first_place(modules,
                   [smallest](std::uint8_t byte, bool active) { return active && byte - kBias < smallest; }),
       kExactSpan, decision.max_exponent, groups);
}

}  // namespace

std::uint64_t over_span_groups(const Mxfp4Scan& scan, int max_exponent) {
  std::uint64_t groups = 0;
  for (int byte = 0; byte < kNanByte && byte - kBias < max_exponent - kExactSpan; ++byte)
    groups += scan.active[byte];
  return groups;
}

ScaleDecision decide_scale(std::span<const ScannedModule> modules, const ScalePolicy& policy) {
  ScaleDecision decision;
  for (const ScannedModule& module : modules) decision.set.add(module.scan);
  refuse_nan(modules, decision.set, policy.nan_scale);
  refuse_overflow(modules, decision.set);
  decision.max_exponent = largest_exponent(modules, decision.set, policy.max_over);
  if (decision.max_exponent < kMinMaxExponent) {
    fail(ErrorCode::kUnsupported,
         "{}: its largest scale is 2^{}, below 2^{}; the tensor scale would not be a normal float",
         modules.front().name, decision.max_exponent, kMinMaxExponent);
  }
  if (policy.method != Method::kCast) {
    decision.cast = false;
    decision.method =
        policy.method == Method::kFourOverSix ? RequantMethod::kFourOverSix : policy.requant_method;
    return decision;
  }
  if (over_span_groups(decision.set, decision.max_exponent) == 0) return decision;
  if (policy.over_span == OverSpan::kFail) refuse_over_span(modules, decision);
  decision.cast = false;
  decision.method =
      policy.over_span == OverSpan::kSaturate ? RequantMethod::kSaturate : policy.requant_method;
  return decision;
}

}  // namespace perigee
