#include "grammar/schema_types.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "text/json_write.h"

namespace perigee {
namespace {

double number_of(const JsonNode& value) {
  return std::strtod(std::string(value.literal).c_str(), nullptr);
}

bool is_whole(const JsonNode& value) {
  if (value.literal.find_first_of(".eE") == std::string_view::npos) return true;
  const double number = number_of(value);
  return std::isfinite(number) && std::floor(number) == number;
}

bool same_members(const JsonNode& a, const JsonNode& b) {
  const auto mine = sorted_members(a), theirs = sorted_members(b);
  return std::ranges::equal(mine, theirs, [](const DictMember& x, const DictMember& y) {
    return x.key == y.key && same_value(*x.value, *y.value);
  });
}

}  // namespace

TypeSet type_named(std::string_view name) {
  if (name == "null") return kTypeNull;
  if (name == "boolean") return kTypeBoolean;
  if (name == "object") return kTypeObject;
  if (name == "array") return kTypeArray;
  if (name == "number") return kTypeNumber;
  if (name == "integer") return kTypeInteger;
  if (name == "string") return kTypeString;
  return kNoType;
}

TypeSet shared_types(TypeSet a, TypeSet b) {
  TypeSet shared = a & b;
  const bool integers =
      ((a & kTypeNumber) && (b & kTypeInteger)) || ((a & kTypeInteger) && (b & kTypeNumber));
  if (integers) shared |= kTypeInteger;
  return shared;
}

TypeSet types_of_value(const JsonNode& value) {
  if (!value.is(JsonKind::kNumber)) return type_named(json_kind_name(value.kind));
  return is_whole(value) ? kTypeNumber | kTypeInteger : kTypeNumber;
}

bool same_value(const JsonNode& a, const JsonNode& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case JsonKind::kNull:
      return true;
    case JsonKind::kBoolean:
      return a.literal == b.literal;
    case JsonKind::kNumber:
      return a.literal == b.literal || number_of(a) == number_of(b);
    case JsonKind::kString:
      return a.text == b.text;
    case JsonKind::kArray:
      return std::ranges::equal(a.items, b.items, same_value);
    case JsonKind::kObject:
      return same_members(a, b);
  }
  return false;
}

}  // namespace perigee
