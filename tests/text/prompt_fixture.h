// Conversations from JSON text and prompts from conversations, in one line each. For tests only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/paths.h"
#include "text/conversation_json.h"
#include "text/prompt.h"

namespace perigee::test {

// As the released encoder: hardly any checks, no effort unless one is named.
inline ConversationRules raw_rules() {
  ConversationRules rules;
  rules.lenient = true;
  rules.default_effort = std::nullopt;
  rules.image_size = [](const std::string&, const JsonNode&, const std::string&) {
    return ImageSize{640, 480};
  };
  return rules;
}

// As a server; images are all 30 by 20.
inline ConversationRules server_rules() {
  ConversationRules rules;
  rules.image_size = [](const std::string&, const JsonNode&, const std::string&) {
    return ImageSize{30, 20};
  };
  return rules;
}

inline Conversation conversation_of(const std::string& json, const ConversationRules& rules = raw_rules()) {
  return read_conversation(JsonTree::parse(json, "request").root(), rules);
}

inline std::string rendered(const std::string& json, const ConversationRules& rules = raw_rules(),
                            GenerationPrompt generation = GenerationPrompt::kOpen) {
  return prompt_text(build_prompt(conversation_of(json, rules), generation));
}

inline std::vector<TokenId> prompt_ids(const Tokenizer& tokenizer, std::span<const Segment> segments) {
  return PromptEncoder(tokenizer).encode(segments).ids;
}

// Keep the result in a variable: a loop over a member of a temporary sees nothing.
inline nlohmann::ordered_json golden_json(const std::string& name) {
  return nlohmann::ordered_json::parse(read_small_file(data_folder() / "text" / name, 10'000'000));
}

// {"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"","tool_calls":<calls>}]}
inline std::string with_tool_calls(const std::string& calls) {
  return R"({"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"","tool_calls":)" +
         calls + "}]}";
}

}  // namespace perigee::test
