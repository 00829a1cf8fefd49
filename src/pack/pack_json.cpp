#include "pack/pack_json.h"

#include "convert/report_json.h"

namespace perigee {

using nlohmann::json;

json planes_to_json(const PlaneTable& planes) {
  json object = json::object();
  for (const auto& [plane, sums] : planes) {
    object[plane_name(plane)] = {{"tensors", sums.tensors},
                                 {"rounded", sums.rounded},
                                 {"source_bytes", sums.source_bytes},
                                 {"stored_bytes", sums.stored_bytes},
                                 {"error", error_to_json(sums.error)}};
  }
  return object;
}

PlaneTable planes_from_json(const json& object) {
  PlaneTable planes;
  for (const Plane plane : kPlanes) {
    if (!object.contains(plane_name(plane))) continue;
    const json& entry = object.at(plane_name(plane));
    PlaneSums& sums = planes[plane];
    sums.tensors = entry.at("tensors").get<std::uint64_t>();
    sums.rounded = entry.at("rounded").get<std::uint64_t>();
    sums.source_bytes = entry.at("source_bytes").get<std::uint64_t>();
    sums.stored_bytes = entry.at("stored_bytes").get<std::uint64_t>();
    sums.error = error_from_json(entry.at("error"));
  }
  return planes;
}

json item_to_json(const ItemRecord& record) {
  json sources = json::array(), files = json::array();
  for (const SourceMark& source : record.sources) {
    sources.push_back(
        {{"shard", source.shard}, {"bytes", source.bytes}, {"modified_ns", source.modified_ns}});
  }
  for (const FileMark& file : record.files) {
    files.push_back({{"path", file.path.string()}, {"bytes", file.bytes}, {"probe", file.probe}});
  }
  return {{"sources", std::move(sources)},
          {"files", std::move(files)},
          {"checksums", record.checksums},
          {"planes", planes_to_json(record.planes)}};
}

ItemRecord item_from_json(const json& object) {
  ItemRecord record;
  for (const json& source : object.at("sources")) {
    record.sources.push_back({source.at("shard").get<std::string>(), source.at("bytes").get<std::uint64_t>(),
                              source.at("modified_ns").get<std::int64_t>()});
  }
  for (const json& file : object.at("files")) {
    record.files.push_back({file.at("path").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                            file.at("probe").get<std::string>()});
  }
  record.checksums = object.at("checksums").get<std::vector<std::uint64_t>>();
  record.planes = planes_from_json(object.at("planes"));
  return record;
}

}  // namespace perigee
