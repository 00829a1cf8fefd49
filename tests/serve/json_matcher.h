// The matchers of api.json (README.md beside it): what a value must be, where it cannot be said exactly.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace perigee::test {

// Why `value` (nullptr: absent) is not what `wanted` says; empty: it is. `document`: what pointers of
// $equals and $sum lead into. `prompt_tokens`: of the case.
std::string mismatch(const nlohmann::json* value, const nlohmann::json& wanted,
                     const nlohmann::json& document, const nlohmann::json& prompt_tokens);

// The value at a JSON pointer, nullptr if there is none.
const nlohmann::json* value_at(const nlohmann::json& document, const std::string& pointer);

}  // namespace perigee::test
