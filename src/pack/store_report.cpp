#include "pack/store_report.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/json_document.h"
#include "pack/pack_json.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 1;

// The file names other files; none of them may lead out of its folder.
std::string safe_path(const json& value, bool may_be_empty) {
  const std::string text = value.get<std::string>();
  const fs::path path(text);
  const bool climbs =
      std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
  if (path.is_absolute() || climbs || (text.empty() && !may_be_empty)) {
    fail(ErrorCode::kCorrupt, "{} names \"{}\", which is no file of a store", kStoreReportName,
         path.filename().string());
  }
  return text;
}

StoreReport from_json(const json& object) {
  StoreReport report;
  report.fingerprint = object.at("fingerprint").get<std::string>();
  report.source_name = object.at("source").get<std::string>();
  report.expert_format = object.at("expert_format").get<std::string>();
  report.linked = object.at("linked").get<bool>();
  report.experts = object.at("experts").get<std::uint64_t>();
  report.expert_bytes = object.at("expert_bytes").get<std::uint64_t>();
  report.largest_record = object.at("largest_record").get<std::uint64_t>();
  report.planes = planes_from_json(object.at("planes"));
  for (const json& shard : object.at("shards")) {
    report.shards.push_back({safe_path(shard.at("name"), false), shard.at("bytes").get<std::uint64_t>(),
                             safe_path(shard.at("trunk"), true)});
  }
  for (const json& part : object.at("parts")) {
    report.parts.push_back({safe_path(part.at("path"), false), part.at("bytes").get<std::uint64_t>(),
                            part.at("xxh3").get<std::uint64_t>()});
  }
  return report;
}

}  // namespace

bool StoreReport::is_lossless() const {
  return std::all_of(planes.begin(), planes.end(),
                     [](const auto& entry) { return entry.second.rounded == 0; });
}

std::string store_report_to_json(const StoreReport& report) {
  json planes = planes_to_json(report.planes);
  for (const auto& [plane, sums] : report.planes) {
    planes[plane_name(plane)]["relative_rmse"] = sums.error.relative_rmse();
  }
  json shards = json::array(), parts = json::array();
  for (const StoreReport::Shard& shard : report.shards) {
    shards.push_back({{"name", shard.name}, {"bytes", shard.bytes}, {"trunk", shard.trunk}});
  }
  for (const StoreReport::Part& part : report.parts) {
    parts.push_back({{"path", part.path}, {"bytes", part.bytes}, {"xxh3", part.xxh3}});
  }
  const json object = {{"version", kVersion},
                       {"fingerprint", report.fingerprint},
                       {"source", report.source_name},
                       {"expert_format", report.expert_format},
                       {"linked", report.linked},
                       {"experts", report.experts},
                       {"expert_bytes", report.expert_bytes},
                       {"largest_record", report.largest_record},
                       {"lossless", report.is_lossless()},
                       {"planes", std::move(planes)},
                       {"shards", std::move(shards)},
                       {"parts", std::move(parts)}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

StoreReport load_store_report(const fs::path& store) {
  const fs::path path = store / kStoreReportName;
  const json object = load_json_document(path);
  try {
    if (object.at("version") != kVersion) {
      fail(ErrorCode::kUnsupported, "{} is of another version than {}; pack again", path.string(), kVersion);
    }
    return from_json(object);
  } catch (const json::exception&) {  // whose sentence would print the damaged bytes
    fail(ErrorCode::kCorrupt, "{} is no report of perigee pack: a field is missing or of the wrong kind",
         path.string());
  }
}

}  // namespace perigee
