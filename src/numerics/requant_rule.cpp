// See requant_rule.h. Every float operation here is one that the library does, rounded where it rounds.
#include "numerics/requant_rule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"
#include "numerics/lossless_cast.h"

namespace perigee {
namespace {

constexpr float kFullRange = 2688.0f;            // 6 * 448: the set's largest value lands on the largest code
constexpr float kFourOverSixRange = 1536.0f;     // 6 * 256: room for a scale 6/4 as large
constexpr std::uint8_t kMinMaxZeroScale = 0x20;  // compressed-tensors' eps, 0.125

float finite_or_one(float value) {
  return std::isfinite(value) ? value : 1.0f;
}

RequantRule minmax_rule(float largest) {
  RequantRule rule;
  const float reciprocal = round_to_bf16(1.0f / largest);
  rule.global_scale = finite_or_one(round_to_bf16(reciprocal * kFullRange));
  rule.scale_2 = 1.0f / rule.global_scale;
  return rule;
}

RequantRule modelopt_rule(float largest) {
  RequantRule rule;
  if (largest == 0.0f) return rule;
  rule.scale_2 = largest / kFullRange;
  rule.global_scale = kFullRange / largest;
  return rule;
}

RequantRule four_over_six_rule(float largest) {
  RequantRule rule;
  rule.global_scale = finite_or_one(kFourOverSixRange / largest);
  rule.scale_2 = rule.global_scale == 1.0f ? 1.0f : largest / kFourOverSixRange;
  return rule;
}

RequantRule saturate_rule(int max_exponent) {
  if (max_exponent < kMinMaxExponent) {
    fail(ErrorCode::kUnsupported,
         "the largest scale of a set is 2^{}, below 2^{}: its tensor scale would not be a normal float; "
         "such experts cannot be stored as NVFP4 without loss of range",
         max_exponent, kMinMaxExponent);
  }
  RequantRule rule;
  rule.scale_2 = cast_scale_2(max_exponent);
  rule.global_scale = cast_global_scale(max_exponent);
  return rule;
}

float set_largest(const Mxfp4Scan& set) {
  if (!set.any_active()) return 0.0f;
  const Mxfp4Scan::Largest largest = set.largest_value();
  const float value = mxfp4_value(largest.code, largest.byte);
  if (!std::isfinite(value) || set.active[kE8m0Nan] != 0) {
    fail(ErrorCode::kUnsupported,
         "the largest value of a set is code {} under scale byte {}, which is no finite float; the source is "
         "damaged "
         "or not a released checkpoint",
         largest.code, largest.byte);
  }
  return value;
}

bool divides_by_global(RequantMethod method) {
  return method == RequantMethod::kCompressedTensorsMinMax || method == RequantMethod::kFourOverSix;
}

std::uint8_t cast_code(const RequantRule& rule, std::uint8_t byte) {
  const int exponent = byte - kE8m0Bias - (rule.max_exponent - 8);
  return e4m3_encode(std::ldexp(1.0f, std::clamp(exponent, -9, 8)));
}

std::uint8_t minmax_code(const RequantRule& rule, float largest) {
  const float raw = round_to_bf16(largest / kE2m1Max);
  const std::uint8_t code = e4m3_encode(std::min(rule.global_scale * raw, kE4m3Max));
  return code == 0 ? kMinMaxZeroScale : code;
}

// ModelOpt: zero becomes one, everything else is clamped to what E4M3 can hold above zero.
std::uint8_t clamped_code(float scale) {
  if (scale == 0.0f) return kE4m3One;
  return e4m3_encode(std::clamp(scale, kE4m3Min, kE4m3Max));
}

}  // namespace

RequantRule make_requant_rule(RequantMethod method, const Mxfp4Scan& set) {
  const float largest = set_largest(set);
  const int max_exponent = set.any_active() ? set.max_exponent() : 0;
  RequantRule rule;
  switch (method) {
    case RequantMethod::kCompressedTensorsMinMax:
      rule = minmax_rule(largest);
      break;
    case RequantMethod::kModelOptMax:
      rule = modelopt_rule(largest);
      break;
    case RequantMethod::kFourOverSix:
      rule = four_over_six_rule(largest);
      break;
    case RequantMethod::kSaturate:
      rule = saturate_rule(max_exponent);
      break;
  }
  rule.method = method;
  rule.max_exponent = max_exponent;
  return rule;
}

float source_value(std::uint8_t code, std::uint8_t byte) {
  const float element = e2m1_value(code);
  return element == 0.0f ? element : mxfp4_value(code, byte);
}

bool keeps_nibbles(const RequantRule& rule, std::uint8_t byte, float largest) {
  if (rule.method != RequantMethod::kSaturate) return false;
  return largest == 0.0f || rule.max_exponent - (byte - kE8m0Bias) <= kExactSpan;
}

ScaleCandidates scale_candidates(const RequantRule& rule, std::uint8_t byte, float largest) {
  std::uint8_t code = 0;
  switch (rule.method) {
    case RequantMethod::kCompressedTensorsMinMax:
      code = minmax_code(rule, largest);
      break;
    case RequantMethod::kModelOptMax:
      code = clamped_code(largest / (kE2m1Max * rule.scale_2));
      break;
    case RequantMethod::kFourOverSix:
      return {{clamped_code(rule.global_scale * (largest / 6.0f)),
               clamped_code(rule.global_scale * (largest / 4.0f))}};
    case RequantMethod::kSaturate:
      code = cast_code(rule, byte);
      break;
  }
  return {{code, code}};
}

std::uint8_t requantise_value(const RequantRule& rule, std::uint8_t scale_code, float value) {
  const float scale = e4m3_value(scale_code);
  const float step = divides_by_global(rule.method) ? scale / rule.global_scale : scale * rule.scale_2;
  const float quotient = value / step;
  // The libraries take the sign from quotient < 0: a negative value that rounds to zero keeps it, -0 loses
  // it.
  const std::uint8_t magnitude = e2m1_encode(std::fabs(quotient));
  return quotient < 0.0f ? magnitude | kE2m1SignBit : magnitude;
}

double decoded_value(const RequantRule& rule, std::uint8_t scale_code, std::uint8_t nibble) {
  const double scaled = static_cast<double>(e2m1_value(nibble)) * static_cast<double>(e4m3_value(scale_code));
  return divides_by_global(rule.method) ? scaled / static_cast<double>(rule.global_scale)
                                        : scaled * static_cast<double>(rule.scale_2);
}

}  // namespace perigee
