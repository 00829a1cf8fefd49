#include "text/json_fields.h"

namespace perigee {

std::string shown(const JsonNode& value) {
  constexpr std::size_t kLongest = 60;
  const bool scalar = !value.is(JsonKind::kArray) && !value.is(JsonKind::kObject);
  if (scalar && value.literal.size() <= kLongest) return std::string(value.literal);
  if (value.is(JsonKind::kNumber)) return "a long number";
  if (value.is(JsonKind::kString)) return "a long string";
  return value.is(JsonKind::kArray) ? "an array" : "an object";
}

std::string member_param(const std::string& param, std::string_view key) {
  return param.empty() ? std::string(key) : fmt::format("{}.{}", param, key);
}

const JsonNode* find_set(const JsonNode& object, std::string_view key) {
  const JsonNode* value = object.find(key);
  return value == nullptr || value->is(JsonKind::kNull) ? nullptr : value;
}

std::optional<std::string> find_string(const JsonNode& object, std::string_view key,
                                       const std::string& param) {
  const JsonNode* value = find_set(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is(JsonKind::kString)) {
    refuse(member_param(param, key), "is {}; it must be a string", shown(*value));
  }
  return value->text;
}

std::optional<bool> find_boolean(const JsonNode& object, std::string_view key, const std::string& param) {
  const JsonNode* value = find_set(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is(JsonKind::kBoolean)) {
    refuse(member_param(param, key), "is {}; it must be true or false", shown(*value));
  }
  return value->is_true();
}

}  // namespace perigee
