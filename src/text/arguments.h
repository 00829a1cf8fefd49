// Arguments of a tool call: from what a client sends (JSON text or an object) to the elements of the prompt
// (docs/chat-format.md, "Tool calls"). The way back, from a reply's elements to JSON text, streams and lives
// in argument_writer.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_tree.h"

namespace perigee {

struct Argument {
  std::string key;
  JsonKind type = JsonKind::kString;
  std::string value;  // a string raw, anything else as its literal
};

// Either members in order, or, where the text is not a JSON object, that text itself.
struct CallArguments {
  std::vector<Argument> members;
  std::optional<std::string> raw;
};

// `text` as in `function.arguments`: one level is parsed, each value keeps its literal, duplicate keys stay,
// anything behind the closing brace is ignored, NaN, Infinity and raw control characters are accepted. Never
// fails: what is not an object becomes `raw`.
CallArguments arguments_from_text(std::string_view text);

// `object` of kind kObject: values as Python would dump them.
CallArguments arguments_from_object(const JsonNode& object);

}  // namespace perigee
