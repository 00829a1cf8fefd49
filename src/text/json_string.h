// JSON strings: decoding what a JsonScanner has accepted, and the escapes that Python's
// json.dumps(ensure_ascii=False) writes (docs/chat-format.md). Nothing is checked here.
#pragma once

#include <string>
#include <string_view>

namespace perigee {

// `quoted` is a valid JSON string with its quotes. A pair of surrogate escapes is one character, each lone
// half is U+FFFD.
std::string decode_json_string(std::string_view quoted);

// Escapes of quote, backslash, \n \r \t \b \f and \u00xx for the other C0 controls; all else as it is.
void append_json_escaped(std::string& out, std::string_view text);

// The same, in quotes.
void append_python_string(std::string& out, std::string_view text);

}  // namespace perigee
