#include "convert/report.h"

#include <algorithm>

#include "base/version.h"
#include "convert/report_json.h"

namespace perigee {
namespace {

using nlohmann::json;

// Actions that leave every value of a module as it was.
bool keeps_values(const std::string& action) {
  return action == "cast" || action == "transcode";
}

// From strongest to weakest.
int verification_rank(const std::string& verification) {
  if (verification == "full") return 0;
  return verification == "sample" ? 1 : 2;
}

void add_module(ConversionReport& report, const ModuleRecord& module) {
  ++report.modules;
  ++report.modules_by_action[module.action];
  report.groups += module.groups;
  if (keeps_values(module.action)) {
    report.groups_kept += module.groups;
  } else if (module.action == "saturate") {
    report.groups_kept += module.groups - module.over_span_groups;
  }
  report.zero_groups += module.zero_groups;
  report.over_span_groups += module.over_span_groups;
  report.marlin_unsafe_blocks += module.marlin_unsafe_blocks;
  report.negative_zero_nibbles += module.negative_zero_nibbles;
  report.byte_00_groups += module.byte_00_groups;
  report.byte_ff_groups += module.byte_ff_groups;
  for (std::size_t d = 0; d < module.span_histogram.size(); ++d)
    report.span_histogram[d] += module.span_histogram[d];
}

// K over the modules that have one; modules of zeros and transcoded ones do not.
void add_exponent_range(ConversionReport& report, const ModuleRecord& module) {
  if (std::ranges::all_of(module.span_histogram, [](std::uint64_t count) { return count == 0; })) return;
  const int k = module.max_exponent;
  report.max_exponent_low = std::min(report.max_exponent_low.value_or(k), k);
  report.max_exponent_high = std::max(report.max_exponent_high.value_or(k), k);
}

json exponent_to_json(std::optional<int> exponent) {
  return exponent ? json(*exponent) : json(nullptr);
}

std::optional<int> exponent_from_json(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int>());
}

// The plain counters and their names in the JSON, for writing and reading alike.
std::vector<std::pair<const char*, std::uint64_t*>> counters(ConversionReport& report) {
  return {{"shards", &report.shards},
          {"tensors", &report.tensors},
          {"total_size", &report.total_size},
          {"source_file_bytes", &report.source_file_bytes},
          {"output_file_bytes", &report.output_file_bytes},
          {"modules", &report.modules},
          {"groups_of_32", &report.groups},
          {"groups_kept", &report.groups_kept},
          {"zero_groups", &report.zero_groups},
          {"over_span_groups", &report.over_span_groups},
          {"marlin_unsafe_blocks_of_16", &report.marlin_unsafe_blocks},
          {"negative_zero_nibbles", &report.negative_zero_nibbles},
          {"scale_byte_00_groups", &report.byte_00_groups},
          {"scale_byte_ff_groups", &report.byte_ff_groups},
          {"fp8_tensors", &report.fp8_tensors}};
}

json measured_to_json(const ErrorSums& error) {
  if (error.elements == 0) return nullptr;
  return {{"elements", error.elements},
          {"relative_rmse", error.relative_rmse()},
          {"cosine", error.cosine()},
          {"norm_ratio", error.norm_ratio()},
          {"max_abs_error", error.max_abs_error},
          {"sums", error_to_json(error)}};
}

ErrorSums measured_from_json(const json& object) {
  return object.is_null() ? ErrorSums{} : error_from_json(object.at("sums"));
}

json totals_to_json(ConversionReport report) {
  json totals = {{"modules_by_action", report.modules_by_action},
                 {"span_histogram", report.span_histogram},
                 {"K_smallest", exponent_to_json(report.max_exponent_low)},
                 {"K_largest", exponent_to_json(report.max_exponent_high)}};
  for (const auto& [key, field] : counters(report)) totals[key] = *field;
  return totals;
}

}  // namespace

bool ConversionReport::lossless() const {
  return fp8_tensors == 0 &&
         std::ranges::all_of(modules_by_action, [](const auto& entry) { return keeps_values(entry.first); });
}

void add_record(ConversionReport& report, ShardRecord record) {
  const bool weaker = verification_rank(record.verification) > verification_rank(report.verification);
  if (report.shards == 0 || weaker) report.verification = record.verification;
  ++report.shards;
  report.tensors += record.output_tensors;
  report.source_file_bytes += record.source_bytes;
  report.output_file_bytes += record.output_bytes;
  report.total_size += record.output_data_bytes;
  report.fp8_tensors += record.fp8_tensors;
  report.expert_error.add(record.expert_error);
  report.fp8_error.add(record.fp8_error);
  for (const ModuleRecord& module : record.modules) {
    add_module(report, module);
    add_exponent_range(report, module);
  }
  record.modules = {};
  report.records.push_back(std::move(record));
}

std::string report_to_json(const ConversionReport& report) {
  json shards = json::array();
  for (const ShardRecord& record : report.records) {
    shards.push_back({{"file", record.file_name},
                      {"bytes", record.output_bytes},
                      {"source_bytes", record.source_bytes},
                      {"tensors", record.output_tensors},
                      {"sha256", record.sha256},
                      {"verification", record.verification}});
  }
  const json document = {
      {"tool", "perigee"},
      {"version", kVersion},
      {"fingerprint", report.fingerprint},
      {"source", {{"name", report.source_name}, {"format", report.source_format}}},
      {"layout", report.layout},
      {"activations", report.activations},
      {"method", report.method},
      {"partial", report.partial},
      {"lossless", report.lossless()},
      {"verification", report.verification},
      {"measured_error",
       {{"experts", measured_to_json(report.expert_error)}, {"fp8", measured_to_json(report.fp8_error)}}},
      {"totals", totals_to_json(report)},
      {"shards", std::move(shards)}};
  return document.dump(2) + "\n";
}

std::optional<ConversionReport> report_from_json(const std::string& text) {
  try {
    const json document = json::parse(text);
    const json& totals = document.at("totals");
    ConversionReport report;
    report.fingerprint = document.at("fingerprint").get<std::string>();
    report.source_name = document.at("source").at("name").get<std::string>();
    report.source_format = document.at("source").at("format").get<std::string>();
    report.layout = document.at("layout").get<std::string>();
    report.activations = document.at("activations").get<std::string>();
    report.method = document.at("method").get<std::string>();
    report.partial = document.at("partial").get<bool>();
    report.verification = document.at("verification").get<std::string>();
    report.expert_error = measured_from_json(document.at("measured_error").at("experts"));
    report.fp8_error = measured_from_json(document.at("measured_error").at("fp8"));
    totals.at("modules_by_action").get_to(report.modules_by_action);
    totals.at("span_histogram").get_to(report.span_histogram);
    for (const auto& [key, field] : counters(report)) *field = totals.at(key).get<std::uint64_t>();
    for (const json& shard : document.at("shards")) {
      ShardRecord record;
      record.file_name = shard.at("file").get<std::string>();
      record.output_bytes = shard.at("bytes").get<std::uint64_t>();
      report.records.push_back(std::move(record));
    }
    report.max_exponent_low = exponent_from_json(totals.at("K_smallest"));
    report.max_exponent_high = exponent_from_json(totals.at("K_largest"));
    return report;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string modules_to_json_lines(const ShardRecord& record) {
  std::string lines;
  for (const ModuleRecord& module : record.modules) lines += module_to_json(module).dump() + "\n";
  return lines;
}

}  // namespace perigee
