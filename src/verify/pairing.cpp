#include "verify/pairing.h"

#include <fmt/format.h>

#include <map>

namespace perigee::verifying {
namespace {

struct Pair {
  const VerifiedModule* w1 = nullptr;
  const VerifiedModule* w3 = nullptr;
};

std::map<std::pair<std::int32_t, std::int32_t>, Pair> pairs_of(std::span<const VerifiedModule> modules) {
  std::map<std::pair<std::int32_t, std::int32_t>, Pair> pairs;
  for (const VerifiedModule& module : modules) {
    Pair& pair = pairs[{module.layer, module.expert}];
    if (module.projection == Projection::kW1) pair.w1 = &module;
    if (module.projection == Projection::kW3) pair.w3 = &module;
  }
  return pairs;
}

void require_equal(const Pair& pair, float of_w1, float of_w3, const char* check, const std::string& part,
                   const std::string& file, FailureList& failures) {
  if (of_w1 == of_w3) return;
  const auto name = [](const VerifiedModule& module) {
    return expert_module_name(static_cast<std::uint64_t>(module.layer),
                              static_cast<std::uint64_t>(module.expert), module.projection);
  };
  VerifyFailure failure;
  failure.check = check;
  failure.file = file;
  failure.tensor = name(*pair.w3) + "." + part;
  failure.expected = fmt::format("{:.9g}", of_w1);
  failure.found = fmt::format("{:.9g}", of_w3);
  failure.message = fmt::format("{} is {}, w1 of the same expert has {}; engines use w1's for both",
                                failure.tensor, failure.found, failure.expected);
  failures.add(std::move(failure));
}

void require_all_or_none(std::span<const VerifiedModule> modules, const std::string& file,
                         FailureList& failures) {
  for (const VerifiedModule& module : modules) {
    if ((module.input_scale != 0) == (modules.front().input_scale != 0)) continue;
    VerifyFailure failure;
    failure.check = "input-scale";
    failure.file = file;
    failure.tensor = expert_module_name(static_cast<std::uint64_t>(module.layer),
                                        static_cast<std::uint64_t>(module.expert), module.projection);
    failure.message = fmt::format("{}: some experts have an input scale and some have none, first seen at {}",
                                  file, failure.tensor);
    failures.add(std::move(failure));
    return;
  }
}

}  // namespace

void check_pairs(std::span<const VerifiedModule> modules, ExpertFormat format, const std::string& file,
                 FailureList& failures) {
  const bool divides = format == ExpertFormat::kNvfp4CompressedTensors;
  for (const auto& [expert, pair] : pairs_of(modules)) {
    if (pair.w1 == nullptr || pair.w3 == nullptr) continue;
    require_equal(pair, pair.w1->tensor_scale, pair.w3->tensor_scale, "pair-scale",
                  divides ? "weight_global_scale" : "weight_scale_2", file, failures);
    require_equal(pair, pair.w1->input_scale, pair.w3->input_scale, "pair-scale",
                  divides ? "input_global_scale" : "input_scale", file, failures);
  }
  require_all_or_none(modules, file, failures);
}

std::vector<VerifiedModule> without_partner(std::span<const VerifiedModule> modules) {
  std::vector<VerifiedModule> alone;
  for (const auto& [expert, pair] : pairs_of(modules)) {
    if (pair.w1 != nullptr && pair.w3 == nullptr) alone.push_back(*pair.w1);
    if (pair.w3 != nullptr && pair.w1 == nullptr) alone.push_back(*pair.w3);
  }
  return alone;
}

}  // namespace perigee::verifying
