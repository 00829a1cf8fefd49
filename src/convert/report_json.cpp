#include "convert/report_json.h"

namespace perigee {

using nlohmann::json;

json module_to_json(const ModuleRecord& module) {
  // The histogram is cut after its last entry: most modules span a few binades.
  std::size_t bins = module.span_histogram.size();
  while (bins > 0 && module.span_histogram[bins - 1] == 0) --bins;
  json histogram = json::array();
  for (std::size_t i = 0; i < bins; ++i) histogram.push_back(module.span_histogram[i]);
  return {{"module", module.name},
          {"action", module.action},
          {"K", module.max_exponent},
          {"k_max", module.own_max_exponent},
          {"k_min", module.min_exponent},
          {"groups", module.groups},
          {"zero_groups", module.zero_groups},
          {"over_span_groups", module.over_span_groups},
          {"marlin_unsafe_blocks", module.marlin_unsafe_blocks},
          {"negative_zero_nibbles", module.negative_zero_nibbles},
          {"byte_00_groups", module.byte_00_groups},
          {"byte_ff_groups", module.byte_ff_groups},
          {"span_histogram", std::move(histogram)}};
}

ModuleRecord module_from_json(const json& object) {
  ModuleRecord module;
  module.name = object.at("module").get<std::string>();
  module.action = object.at("action").get<std::string>();
  module.max_exponent = object.at("K").get<int>();
  module.own_max_exponent = object.at("k_max").get<int>();
  module.min_exponent = object.at("k_min").get<int>();
  module.groups = object.at("groups").get<std::uint64_t>();
  module.zero_groups = object.at("zero_groups").get<std::uint64_t>();
  module.over_span_groups = object.at("over_span_groups").get<std::uint64_t>();
  module.marlin_unsafe_blocks = object.at("marlin_unsafe_blocks").get<std::uint64_t>();
  module.negative_zero_nibbles = object.at("negative_zero_nibbles").get<std::uint64_t>();
  module.byte_00_groups = object.at("byte_00_groups").get<std::uint64_t>();
  module.byte_ff_groups = object.at("byte_ff_groups").get<std::uint64_t>();
  const json& histogram = object.at("span_histogram");
  for (std::size_t i = 0; i < histogram.size() && i < module.span_histogram.size(); ++i) {
    module.span_histogram[i] = histogram[i].get<std::uint64_t>();
  }
  return module;
}

json error_to_json(const ErrorSums& error) {
  return {{"elements", error.elements},
          {"source_squared", error.source_squared},
          {"output_squared", error.output_squared},
          {"product", error.product},
          {"error_squared", error.error_squared},
          {"max_abs_error", error.max_abs_error}};
}

ErrorSums error_from_json(const json& object) {
  ErrorSums error;
  object.at("elements").get_to(error.elements);
  object.at("source_squared").get_to(error.source_squared);
  object.at("output_squared").get_to(error.output_squared);
  object.at("product").get_to(error.product);
  object.at("error_squared").get_to(error.error_squared);
  object.at("max_abs_error").get_to(error.max_abs_error);
  return error;
}

}  // namespace perigee
