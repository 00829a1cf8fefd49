// A strict walk over one JSON object of an untrusted file with simdjson's On-Demand parser. Strict means: the
// whole text is one object, nothing is skipped unchecked, no key comes twice, and every fault becomes an
// Error with a sentence that begins with `where`. Not for documents that are edited; those use nlohmann-json.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/json_text.h"

namespace perigee {

using JsonValue = simdjson::ondemand::value;

// An integer from 0 to 2^63; floats, exponents and signs are refused (format rule R11, docs/formats.md).
std::uint64_t json_integer(JsonValue value, const std::string& where, std::string_view what);

// The decoded text; a view into the parser's buffer, valid until the walk ends.
std::string_view json_string(JsonValue value, const std::string& where, std::string_view what);

simdjson::ondemand::object json_object(JsonValue value, const std::string& where, std::string_view what);
simdjson::ondemand::array json_array(JsonValue value, const std::string& where, std::string_view what);

// Reads a value that nobody asks for, so that a fault in it does not pass unnoticed.
void check_json_value(JsonValue value, const std::string& where, int depth_left = 16);

[[noreturn]] void fail_json(const std::string& where, std::string_view last_key, const char* reason);

// Calls visit(key, value) for each field. `visit` must read the value.
template <typename Visit>
void for_each_field(simdjson::ondemand::object object, Visit&& visit) {
  for (simdjson::ondemand::field field : object) {
    const std::string_view key = field.unescaped_key();
    visit(key, field.value());
  }
}

// Parses `json`, which must be an object, and walks over its fields.
template <typename Visit>
void walk_json(std::string_view json, const std::string& where, Visit&& visit) {
  const simdjson::padded_string padded(json);
  simdjson::ondemand::parser parser;
  std::string last_key;
  try {
    simdjson::ondemand::document document = parser.iterate(padded);
    for_each_field(document.get_object(), [&](std::string_view key, JsonValue value) {
      last_key = key;
      visit(key, value);
    });
    const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
    if (!at_end) fail(ErrorCode::kCorrupt, "{} has text after its closing brace", where);
  } catch (const simdjson::simdjson_error& error) {
    fail_json(where, last_key, error.what());
  }
}

}  // namespace perigee
