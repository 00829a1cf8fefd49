#include "checkpoint/json_walk.h"

namespace perigee {
namespace {

using simdjson::ondemand::json_type;

}  // namespace

std::uint64_t json_integer(JsonValue value, const std::string& where, std::string_view what) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 63;
  std::uint64_t number = 0;
  if (value.get_uint64().get(number) != simdjson::SUCCESS || number > kLargest) {
    fail(ErrorCode::kCorrupt, "{}: {} is not an integer from 0 to 2^63", where, what);
  }
  return number;
}

std::string_view json_string(JsonValue value, const std::string& where, std::string_view what) {
  if (value.type() != json_type::string) fail(ErrorCode::kCorrupt, "{}: {} is not a string", where, what);
  return value.get_string();
}

simdjson::ondemand::object json_object(JsonValue value, const std::string& where, std::string_view what) {
  if (value.type() != json_type::object) fail(ErrorCode::kCorrupt, "{}: {} is not an object", where, what);
  return value.get_object();
}

simdjson::ondemand::array json_array(JsonValue value, const std::string& where, std::string_view what) {
  if (value.type() != json_type::array) fail(ErrorCode::kCorrupt, "{}: {} is not an array", where, what);
  return value.get_array();
}

void check_json_value(JsonValue value, const std::string& where, int depth_left) {
  if (depth_left == 0) fail(ErrorCode::kCorrupt, "{} is nested too deeply", where);
  switch (value.type()) {
    case json_type::array:
      for (JsonValue element : value.get_array()) check_json_value(element, where, depth_left - 1);
      break;
    case json_type::object:
      for_each_field(value.get_object(), [&](std::string_view, JsonValue member) {
        check_json_value(member, where, depth_left - 1);
      });
      break;
    case json_type::number:
      static_cast<void>(value.get_double().value());
      break;
    case json_type::string:
      static_cast<void>(value.get_string().value());
      break;
    case json_type::boolean:
      static_cast<void>(value.get_bool().value());
      break;
    case json_type::null:
      if (!value.is_null()) fail(ErrorCode::kCorrupt, "{} has a value that is no JSON literal", where);
      break;
  }
}

void fail_json(const std::string& where, std::string_view last_key, const char* reason) {
  const std::string place = last_key.empty() ? "" : " at or after " + quoted_name(last_key);
  fail(ErrorCode::kCorrupt, "{} is not valid JSON{}: {}", where, place, reason);
}

}  // namespace perigee
