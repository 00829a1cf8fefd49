// Reading the fields of a request: absent and null are the same, a wrong type is a RequestError that names
// the field and shows what was sent. For the readers of conversation_json.h.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "text/conversation_json.h"
#include "text/json_tree.h"

namespace perigee {

// throw RequestError: "<param> <formatted rest>"
template <typename... Args>
[[noreturn]] void refuse(const std::string& param, fmt::format_string<Args...> format, Args&&... args) {
  throw RequestError(param, param + ' ' + fmt::format(format, std::forward<Args>(args)...));
}

// What a sentence says of a value: a short scalar as it was sent, otherwise its kind.
std::string shown(const JsonNode& value);

// "<param>.<key>", or the key alone at the top.
std::string member_param(const std::string& param, std::string_view key);

// The member unless it is absent or null.
const JsonNode* find_set(const JsonNode& object, std::string_view key);

// The member's text; absent and null give nothing. RequestError if it is not a string.
std::optional<std::string> find_string(const JsonNode& object, std::string_view key,
                                       const std::string& param);

// The member's truth value; absent and null give nothing. RequestError if it is not a boolean.
std::optional<bool> find_boolean(const JsonNode& object, std::string_view key, const std::string& param);

}  // namespace perigee
