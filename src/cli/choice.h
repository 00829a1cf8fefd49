// Options whose values are words: one list gives the parser, the help and the error message.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace perigee {

// Adds `--name word` for one of `words`; the word of `variable`'s present value is shown as the default.
template <typename Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Enum& variable,
                        const std::vector<std::pair<std::string, Enum>>& words, const std::string& help) {
  std::string accepted;
  std::string preset;
  for (const auto& [word, value] : words) {
    accepted += (accepted.empty() ? "" : "|") + word;
    if (value == variable) preset = word;
  }
  const auto assign = [&variable, words, name, accepted](const std::string& given) {
    for (const auto& [word, value] : words) {
      if (word == given) {
        variable = value;
        return;
      }
    }
    fail(ErrorCode::kUsage, "{} {}: must be one of {}", name, given, accepted);
  };
  return command.add_option_function<std::string>(name, assign, help)
      ->type_name(accepted)
      ->default_str(preset);
}

}  // namespace perigee
