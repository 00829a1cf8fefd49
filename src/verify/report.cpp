#include "verify/report.h"

#include <algorithm>

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json failure_json(const VerifyFailure& failure) {
  Json json;
  json["check"] = failure.check;
  json["file"] = failure.file;
  json["tensor"] = failure.tensor;
  json["row"] = or_null(failure.row);
  json["block16"] = or_null(failure.block);
  json["byte"] = or_null(failure.byte);
  json["expected"] = failure.expected;
  json["found"] = failure.found;
  json["message"] = failure.message;
  return json;
}

Json error_json(const ErrorSums& error) {
  return {{"relative_rmse", error.relative_rmse()},
          {"cosine", error.cosine()},
          {"norm_ratio", error.norm_ratio()},
          {"max_abs_error", error.max_abs_error},
          {"elements", error.elements}};
}

// Distances that occur, as "0": 192, …; ">17" for what is beyond.
Json span_json(const SpanSummary& span) {
  Json json = Json::object();
  for (std::size_t d = 0; d < span.active_by_distance.size(); ++d) {
    if (span.active_by_distance[d] > 0) json[std::to_string(d)] = span.active_by_distance[d];
  }
  if (span.beyond > 0) json[">17"] = span.beyond;
  return json;
}

Json totals_json(const VerifiedTotals& totals) {
  Json json;
  json["modules"] = totals.modules;
  json["changed_modules"] = totals.changed_modules;
  json["source_blocks"] = totals.blocks;
  json["zero_blocks"] = totals.zero_blocks;
  json["equal_blocks16"] = totals.equal_blocks16;
  json["rescaled_blocks16"] = totals.rescaled_blocks16;
  json["changed_blocks16"] = totals.changed_blocks16;
  json["decoded_blocks16"] = totals.decoded_blocks16;
  json["marlin_unsafe_blocks16"] = totals.span.marlin_unsafe_blocks16;
  json["source_negative_zeros"] = totals.source_negative_zeros;
  json["normalised_negative_zeros"] = totals.normalised_negative_zeros;
  json["scale_byte_00_blocks"] = totals.byte_00_blocks;
  json["scale_byte_ff_blocks"] = totals.byte_ff_blocks;
  json["nan_values"] = totals.nan_values;
  json["k_max"] = or_null(totals.max_exponent);
  json["k_min"] = or_null(totals.min_exponent);
  json["active_blocks_by_distance"] = span_json(totals.span);
  json["input_scales"] = totals.input_scales;
  json["max_abs_error"] = totals.error.max_abs_error;
  json["measured_modules"] = totals.measured_modules;
  json["outside_gate"] = totals.outside_gate;
  if (totals.measured_modules > 0) json["error"] = error_json(totals.error);
  return json;
}

Json shard_json(const ShardVerification& shard) {
  Json json;
  json["file"] = shard.file;
  json["verdict"] = verdict_name(shard.verdict);
  json["bytes"] = shard.file_bytes;
  json["tensors"] = shard.tensors;
  json["sha256"] = shard.sha256.empty() ? Json(nullptr) : Json(shard.sha256);
  json["failures"] = shard.failures.count;
  json["copied_tensors"] = shard.copied_tensors;
  json["copied_bytes"] = shard.copied_bytes;
  json["pieces"] = shard.units;
  json["pieces_skipped"] = shard.units_skipped;
  json["fp8"] = Json::array();
  for (const VerifiedFp8& tensor : shard.fp8) {
    Json entry = error_json(tensor.error);
    entry["tensor"] = tensor.tensor;
    entry["tiles"] = tensor.tiles;
    json["fp8"].push_back(std::move(entry));
  }
  return json;
}

Json module_json(const VerifiedModule& module, const SpanSummary& span) {
  Json json;
  json["module"] = expert_module_name(static_cast<std::uint64_t>(module.layer),
                                      static_cast<std::uint64_t>(module.expert), module.projection);
  json["failed"] = module.failed;
  json["tensor_scale"] = module.tensor_scale;
  json["input_scale"] = module.input_scale == 0 ? Json(nullptr) : Json(module.input_scale);
  VerifiedTotals totals;
  totals.add(module, span);
  Json numbers = totals_json(totals);
  for (const char* of_sums :
       {"modules", "changed_modules", "measured_modules", "input_scales", "outside_gate"}) {
    numbers.erase(of_sums);
  }
  json.update(numbers);
  return json;
}

}  // namespace

Json verify_report_json(const VerifyReport& report) {
  Json json;
  json["verdict"] = verdict_name(report.verdict);
  json["partial"] = report.partial();
  json["sampled"] = report.sampled;
  json["source"] = report.source.string();
  json["output"] = report.output.string();
  json["source_format"] = expert_format_name(report.source_format);
  json["output_format"] = expert_format_name(report.output_format);
  json["source_shards"] = report.source_shards;
  json["source_shards_absent"] = report.source_shards_absent;
  json["failures_total"] = report.failures.count;
  json["failures"] = Json::array();
  for (const VerifyFailure& failure : report.failures.kept) json["failures"].push_back(failure_json(failure));
  json["warnings"] = report.warnings;
  json["experts"] = totals_json(report.total);
  json["by_projection"] = Json::object();
  for (const auto& [projection, totals] : report.by_projection) {
    json["by_projection"]["w" + std::to_string(projection)] = totals_json(totals);
  }
  json["by_layer"] = Json::object();
  for (const auto& [layer, totals] : report.by_layer)
    json["by_layer"][std::to_string(layer)] = totals_json(totals);
  json["fp8_tensors"] = report.fp8_tensors;
  if (report.fp8_tensors > 0) json["fp8"] = error_json(report.fp8);
  json["files"] = Json::array();
  for (const ShardVerification& shard : report.shards) json["files"].push_back(shard_json(shard));
  json["checksums_compared"] = report.checksums_compared;
  json["seconds"] = report.seconds;
  return json;
}

void write_module_lines(const VerifyReport& report, std::ostream& out) {
  for (std::size_t i = 0; i < report.modules.size(); ++i) {
    out << module_json(report.modules[i], report.spans[i])
               .dump(-1, ' ', false, Json::error_handler_t::replace)
        << '\n';
  }
}

}  // namespace perigee
