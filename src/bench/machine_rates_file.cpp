// MachineRates as JSON and back.

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/machine_rates.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kMostEntries = 64;  // of a list

Json products_json(const ProductRates& rates) {
  return {{"one_token_bytes_per_second", rates.one_token_bytes_per_second},
          {"prompt_macs_per_second", rates.prompt_macs_per_second}};
}

double positive(const Json& json, const char* key) {
  const double number = json.at(key).get<double>();
  if (!std::isfinite(number) || number <= 0) fail(ErrorCode::kCorrupt, "\"{}\" is not above zero", key);
  return number;
}

const Json& list(const Json& json, const char* key) {
  const Json& found = json.at(key);
  if (!found.is_array() || found.size() > kMostEntries)
    fail(ErrorCode::kCorrupt, "\"{}\" is not a short list", key);
  return found;
}

ProductRates products_from(const Json& json) {
  return {positive(json, "one_token_bytes_per_second"), positive(json, "prompt_macs_per_second")};
}

DriveRates drive_from(const Json& json) {
  DriveRates drive;
  drive.file = json.at("file").get<std::string>();
  drive.made = json.at("made").get<bool>();
  drive.direct = json.at("direct").get<bool>();
  drive.io = json.at("io").get<std::string>();
  drive.record_bytes = json.at("record_bytes").get<std::uint64_t>();
  unsigned last = 0;
  for (const Json& entry : list(json, "depths")) {
    const auto depth = entry.at("depth").get<unsigned>();
    if (depth <= last) fail(ErrorCode::kCorrupt, "the depths do not ascend");
    last = depth;
    drive.depths.push_back(
        {depth, positive(entry, "bytes_per_second"), entry.at("cpu_seconds_per_gigabyte").get<double>()});
  }
  if (drive.depths.empty()) fail(ErrorCode::kCorrupt, "there are no depths");
  return drive;
}

MachineRates rates_from(const Json& json) {
  if (json.at("version").get<int>() != kVersion) fail(ErrorCode::kCorrupt, "it is of another version");
  MachineRates rates;
  rates.backend = json.at("backend").get<std::string>();
  rates.threads = json.at("threads").get<unsigned>();
  rates.memory_bytes_per_second = positive(json, "memory_bytes_per_second");
  for (const Json& peak : list(json, "peaks")) {
    rates.peaks.push_back({peak.at("name").get<std::string>(), peak.at("backend").get<std::string>(),
                           positive(peak, "macs_per_second")});
  }
  rates.bf16 = products_from(json.at("bf16"));
  rates.mxfp4 = products_from(json.at("mxfp4"));
  rates.drive = drive_from(json.at("drive"));
  return rates;
}

}  // namespace

std::string write_machine_rates(const MachineRates& rates) {
  Json peaks = Json::array(), depths = Json::array();
  for (const ComputePeak& peak : rates.peaks) {
    peaks.push_back(
        {{"name", peak.name}, {"backend", peak.backend}, {"macs_per_second", peak.macs_per_second}});
  }
  for (const DepthRate& rate : rates.drive.depths) {
    depths.push_back({{"depth", rate.depth},
                      {"bytes_per_second", rate.bytes_per_second},
                      {"cpu_seconds_per_gigabyte", rate.cpu_seconds_per_gigabyte}});
  }
  const Json json = {{"version", kVersion},
                     {"backend", rates.backend},
                     {"threads", rates.threads},
                     {"memory_bytes_per_second", rates.memory_bytes_per_second},
                     {"peaks", std::move(peaks)},
                     {"bf16", products_json(rates.bf16)},
                     {"mxfp4", products_json(rates.mxfp4)},
                     {"drive",
                      {{"file", rates.drive.file.string()},
                       {"made", rates.drive.made},
                       {"direct", rates.drive.direct},
                       {"io", rates.drive.io},
                       {"record_bytes", rates.drive.record_bytes},
                       {"depths", std::move(depths)}}}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

MachineRates parse_machine_rates(std::string_view text, const std::string& origin) {
  try {
    return rates_from(Json::parse(text));
  } catch (const Json::exception& error) {
    fail(ErrorCode::kCorrupt, "{} holds no rates of a machine ({}); perigee bench machine makes it anew",
         origin, error.what());
  } catch (const Error& error) {
    fail(ErrorCode::kCorrupt, "{} holds no rates of a machine: {}; perigee bench machine makes it anew",
         origin, error.what());
  }
}

}  // namespace perigee
