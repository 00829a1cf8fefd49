// JSON as the released encoder writes it into prompts, which is Python's json.dumps in two settings
// (docs/chat-format.md). Iterative values aside, integers are verbatim at any size and floats in Python's
// repr.
#pragma once

#include <string>
#include <string_view>

#include "text/json_tree.h"

namespace perigee {

// Keys sorted by code point at every level, last of duplicate keys, separators "," and ":". For tools and
// schemas.
std::string sorted_compact_json(const JsonNode& value);

// Keys in source order (a duplicate key keeps its first place and its last value), separators ", " and ": ".
// For tool arguments that a client sent as an object.
std::string python_json(const JsonNode& value);

}  // namespace perigee
