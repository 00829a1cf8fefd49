// What every stream of chat completions must keep to, and its deltas joined.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/recorded_exchange.h"

namespace perigee::test {

struct JoinedStream {
  std::string content;
  std::string reasoning;
  nlohmann::json calls = nlohmann::json::array();  // id, name, arguments
  std::string finish_reason;
  std::string fault;  // the first rule that was broken; empty: none
};

// `rules`: those of api.json, each known by its words. An unknown one is a fault.
JoinedStream check_stream(const RecordedExchange& exchange, const std::vector<std::string>& rules);

}  // namespace perigee::test
