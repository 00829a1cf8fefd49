#include "verify/summary.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace perigee {
namespace verifying {
namespace {

constexpr int kLastExact = 17;   // binades below K that E4M3 holds
constexpr int kMarlinSafe = 14;  // below that Marlin flushes the block to zero

bool same_expert(const VerifiedModule& a, const VerifiedModule& b) {
  return a.layer == b.layer && a.expert == b.expert;
}

SpanSummary span_below(const VerifiedModule& module, int max_exponent) {
  SpanSummary span;
  for (const auto& [exponent, blocks] : module.active_by_exponent) {
    const int distance = max_exponent - exponent;
    if (distance > kLastExact) {
      span.beyond += blocks;
    } else {
      span.active_by_distance[static_cast<std::size_t>(distance)] += blocks;
      if (distance > kMarlinSafe) span.marlin_unsafe_blocks16 += blocks * (module.block_elements / 16);
    }
  }
  return span;
}

// K of the modules that share a scale with modules[i], among the neighbours of the same expert.
int shared_max_exponent(const std::vector<VerifiedModule>& modules, std::size_t i) {
  int largest = modules[i].max_exponent().value_or(0);
  if (modules[i].projection == Projection::kW2) return largest;
  for (std::size_t j = i < 2 ? 0 : i - 2; j < std::min(modules.size(), i + 3); ++j) {
    if (same_expert(modules[i], modules[j]) && modules[j].projection != Projection::kW2) {
      largest = std::max(largest, modules[j].max_exponent().value_or(largest));
    }
  }
  return largest;
}

}  // namespace

void summarise_modules(VerifyReport& report) {
  std::vector<VerifiedModule>& modules = report.modules;
  std::stable_sort(modules.begin(), modules.end(), [](const VerifiedModule& a, const VerifiedModule& b) {
    return std::tie(a.layer, a.expert, a.projection) < std::tie(b.layer, b.expert, b.projection);
  });
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const int max_exponent =
        modules[i].max_exponent() ? shared_max_exponent(modules, i) : 0;  // no active block: no distance
    const SpanSummary span = span_below(modules[i], max_exponent);
    report.total.add(modules[i], span);
    report.by_projection[static_cast<int>(modules[i].projection)].add(modules[i], span);
    report.by_layer[modules[i].layer].add(modules[i], span);
    report.spans.push_back(span);
  }
}

}  // namespace verifying

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kLossless:
      return "lossless";
    case Verdict::kLossy:
      return "lossy";
    case Verdict::kFailed:
      return "failed";
  }
  return "failed";
}

void FailureList::add(VerifyFailure failure) {
  ++count;
  if (kept.size() < limit) kept.push_back(std::move(failure));
}

void FailureList::append(const FailureList& other) {
  count += other.count;
  for (const VerifyFailure& failure : other.kept) {
    if (kept.size() < limit) kept.push_back(failure);
  }
}

void ErrorSums::add(const ErrorSums& other) {
  source_squared += other.source_squared;
  output_squared += other.output_squared;
  product += other.product;
  error_squared += other.error_squared;
  max_abs_error = std::max(max_abs_error, other.max_abs_error);
  elements += other.elements;
}

double ErrorSums::relative_rmse() const {
  return source_squared > 0 ? std::sqrt(error_squared / source_squared) : 0;
}

double ErrorSums::cosine() const {
  if (!(source_squared > 0) || !(output_squared > 0)) return 1;
  return product / (std::sqrt(source_squared) * std::sqrt(output_squared));
}

double ErrorSums::norm_ratio() const {
  return source_squared > 0 ? std::sqrt(output_squared / source_squared) : 1;
}

std::optional<int> VerifiedModule::max_exponent() const {
  if (active_by_exponent.empty()) return std::nullopt;
  return active_by_exponent.back().first;
}

std::optional<int> VerifiedModule::min_exponent() const {
  if (active_by_exponent.empty()) return std::nullopt;
  return active_by_exponent.front().first;
}

void VerifiedTotals::add(const VerifiedModule& module, const SpanSummary& of_module) {
  ++modules;
  blocks += module.blocks;
  zero_blocks += module.zero_blocks;
  equal_blocks16 += module.equal_blocks16;
  rescaled_blocks16 += module.rescaled_blocks16;
  changed_blocks16 += module.changed_blocks16;
  decoded_blocks16 += module.decoded_blocks16;
  source_negative_zeros += module.source_negative_zeros;
  normalised_negative_zeros += module.normalised_negative_zeros;
  byte_00_blocks += module.byte_00_blocks;
  byte_ff_blocks += module.byte_ff_blocks;
  nan_values += module.nan_values;
  if (module.input_scale != 0) ++input_scales;
  if (const auto exponent = module.max_exponent()) {
    max_exponent = std::max(max_exponent.value_or(*exponent), *exponent);
    min_exponent = std::min(min_exponent.value_or(*module.min_exponent()), *module.min_exponent());
  }
  for (std::size_t d = 0; d < span.active_by_distance.size(); ++d) {
    span.active_by_distance[d] += of_module.active_by_distance[d];
  }
  span.beyond += of_module.beyond;
  span.marlin_unsafe_blocks16 += of_module.marlin_unsafe_blocks16;
  if (module.measured) {
    ++measured_modules;
    error.add(module.error);
  } else {
    error.max_abs_error = std::max(error.max_abs_error, module.error.max_abs_error);
  }
  if (module.changed_blocks16 == 0) return;
  ++changed_modules;
  if (module.error.relative_rmse() > verifying::kGateRelativeRmse ||
      module.error.cosine() < verifying::kGateCosine) {
    ++outside_gate;
  }
}

}  // namespace perigee
