// JSON that the server writes. Requests are read by text/json_tree.h instead, which keeps their source text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace perigee {

using Json = nlohmann::ordered_json;

// Compact; invalid UTF-8 becomes U+FFFD instead of an exception.
inline std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace perigee
