// JSON as the released encoder writes it into prompts, which is Python's json.dumps in two settings
// (docs/chat-format.md): integers are verbatim at any size, floats in Python's repr. Values must come from a
// JsonTree, whose depth is limited: writing recurses.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_tree.h"

namespace perigee {

// A member as a Python dict would hold it: of duplicate keys the first place and the last value.
struct DictMember {
  std::string_view key;
  const JsonNode* value = nullptr;
  std::size_t place = 0;  // in the source
};

// The distinct members of an object, in code point order of their keys or in source order.
std::vector<DictMember> sorted_members(const JsonNode& object);
std::vector<DictMember> dict_members(const JsonNode& object);

// Keys sorted by code point at every level, last of duplicate keys, separators "," and ":". For tools and
// schemas.
std::string sorted_compact_json(const JsonNode& value);

// Keys in source order (a duplicate key keeps its first place and its last value), separators ", " and ": ".
// For tool arguments that a client sent as an object.
std::string python_json(const JsonNode& value);

}  // namespace perigee
