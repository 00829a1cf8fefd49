// Text in and out of JSON for this room: names quoted for error sentences, names escaped for files.
#pragma once

#include <string>
#include <string_view>

namespace perigee {

// A name from an untrusted file, fit for one line of a terminal: in double quotes, control characters and
// quotes escaped, at most 200 characters of it.
std::string quoted_name(std::string_view name);

bool has_control_character(std::string_view text);

// Appends `text` as a JSON string, quotes included. `text` must be UTF-8.
void append_json_string(std::string& out, std::string_view text);

}  // namespace perigee
