// The regular expressions of JSON Schema's "pattern" as regular languages of written strings. What ECMA-262
// has beyond those is refused by name: looking around, back references, word borders, Unicode properties,
// anchors other than at the ends. Classes like \d are ASCII, as there.
#pragma once

#include <string>
#include <string_view>

#include "grammar/json_words.h"

namespace perigee {

// The whole strings in which the pattern is found, each in `form` with its quotes. kUnsupported naming
// `where` and what cannot be followed.
RegexRef read_pattern(std::string_view pattern, TextForm form, const std::string& where);

}  // namespace perigee
