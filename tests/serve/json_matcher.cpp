#include "serve/json_matcher.h"

#include <regex.h>

#include <algorithm>

namespace perigee::test {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  return false;
}

bool matches_pattern(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
  const bool matches = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return matches;
}

json sum_of(const json& pointers, const json& document) {
  long long sum = 0;
  for (const json& pointer : pointers) sum += value_at(document, pointer)->get<long long>();
  return sum;
}

// Headers are text: they equal a number that they spell.
bool same(const json& value, const json& wanted) {
  return value == wanted || (value.is_string() && wanted.is_number() && value == wanted.dump());
}

bool satisfies(const json* value, const std::string& matcher, const json& operand, const json& document,
               const json& prompt_tokens) {
  if (matcher == "$absent_or_null") return value == nullptr || value->is_null();
  if (value == nullptr) return false;
  if (matcher == "$type") return has_type(*value, operand);
  if (matcher == "$regex") return matches_pattern(value->get<std::string>(), operand);
  if (matcher == "$length") return value->size() == operand.get<std::size_t>();
  if (matcher == "$in") return std::find(operand.begin(), operand.end(), *value) != operand.end();
  if (matcher == "$equals") return same(*value, *value_at(document, operand));
  if (matcher == "$sum") return same(*value, sum_of(operand, document));
  if (matcher == "$prompt_tokens") return same(*value, prompt_tokens);
  return false;
}

}  // namespace

const json* value_at(const json& document, const std::string& pointer) {
  const json::json_pointer place(pointer);
  return document.contains(place) ? &document.at(place) : nullptr;
}

std::string mismatch(const json* value, const json& wanted, const json& document, const json& prompt_tokens) {
  const std::string shown = value == nullptr ? "nothing" : value->dump();
  if (!wanted.is_object() || wanted.empty() || wanted.begin().key().front() != '$') {
    return value != nullptr && *value == wanted ? "" : shown + " instead of " + wanted.dump();
  }
  for (const auto& [matcher, operand] : wanted.items()) {
    if (!satisfies(value, matcher, operand, document, prompt_tokens))
      return shown + " is not " + wanted.dump();
  }
  return {};
}

}  // namespace perigee::test
