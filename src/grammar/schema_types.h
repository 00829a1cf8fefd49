// The types of JSON Schema as sets. Every integer is a number, but a schema may ask for integers alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/json_tree.h"

namespace perigee {

using TypeSet = std::uint8_t;

inline constexpr TypeSet kTypeNull = 1, kTypeBoolean = 2, kTypeObject = 4, kTypeArray = 8, kTypeNumber = 16,
                         kTypeInteger = 32, kTypeString = 64;
inline constexpr TypeSet kNoType = 0;
inline constexpr TypeSet kEveryType = 127;

// kNoType if there is no type of this name.
TypeSet type_named(std::string_view name);

// What belongs to both; integers if the one has all numbers and the other only those.
TypeSet shared_types(TypeSet a, TypeSet b);

// That `value` itself has: of a whole number both.
TypeSet types_of_value(const JsonNode& value);

// Are these the same value to JSON Schema: 1 and 1.0, objects in any order?
bool same_value(const JsonNode& a, const JsonNode& b);

}  // namespace perigee
