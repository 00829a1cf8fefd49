#include "text/thinking_json.h"

#include "text/json_fields.h"

namespace perigee {
namespace {

// What one field says; nothing where it is silent.
struct Wish {
  std::optional<bool> thinking;
  std::optional<Effort> effort;
};

// The model knows three efforts; what other APIs call theirs goes to the nearest one.
std::optional<Effort> effort_of(std::string_view word) {
  if (word == "minimal" || word == "low") return Effort::kLow;
  if (word == "medium" || word == "high") return Effort::kHigh;
  if (word == "xhigh" || word == "max") return Effort::kMax;
  return std::nullopt;
}

std::optional<Effort> find_effort(const JsonNode& object, std::string_view key, const std::string& param) {
  const auto word = find_string(object, key, param);
  if (!word) return std::nullopt;
  const auto effort = effort_of(*word);
  if (!effort) {
    refuse(member_param(param, key), "is {}; it must be \"low\", \"high\" or \"max\"",
           shown(*find_set(object, key)));
  }
  return effort;
}

Wish template_wish(const JsonNode& request) {
  const std::string param = "chat_template_kwargs";
  const JsonNode* kwargs = find_set(request, param);
  if (kwargs == nullptr) return {};
  if (!kwargs->is(JsonKind::kObject)) refuse(param, "is {}; it must be an object", shown(*kwargs));
  Wish wish;
  wish.thinking = find_boolean(*kwargs, "enable_thinking", param);
  if (const auto thinking = find_boolean(*kwargs, "thinking", param)) wish.thinking = thinking;
  wish.effort = find_effort(*kwargs, "thinking_effort", param);
  return wish;
}

// An object, or true or false. `keep` is not looked at: K3 keeps all reasoning.
Wish thinking_wish(const JsonNode& request) {
  const std::string param = "thinking";
  const JsonNode* thinking = find_set(request, param);
  if (thinking == nullptr) return {};
  if (thinking->is(JsonKind::kBoolean)) return {.thinking = thinking->is_true(), .effort = {}};
  if (!thinking->is(JsonKind::kObject)) {
    refuse(param, "is {}; it must be an object like {{\"type\":\"enabled\"}}", shown(*thinking));
  }
  const std::string type = find_string(*thinking, "type", param).value_or("enabled");
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    refuse(param + ".type", "is {}; it must be \"enabled\", \"disabled\" or \"adaptive\"",
           shown(*find_set(*thinking, "type")));
  }
  return {.thinking = type != "disabled", .effort = find_effort(*thinking, "effort", param)};
}

Wish top_level_wish(const JsonNode& request) {
  return {.thinking = find_boolean(request, "enable_thinking", ""),
          .effort = find_effort(request, "thinking_effort", "")};
}

Wish reasoning_wish(const JsonNode& request) {
  const auto word = find_string(request, "reasoning_effort", "");
  if (!word) return {};
  if (*word == "none") return {.thinking = false, .effort = {}};
  const auto effort = effort_of(*word);
  if (!effort) {
    refuse("reasoning_effort", "is {}; it must be \"none\", \"low\", \"high\" or \"max\"",
           shown(*find_set(request, "reasoning_effort")));
  }
  return {.thinking = {}, .effort = effort};
}

}  // namespace

void read_thinking(const JsonNode& request, const ConversationRules& rules, Conversation& conversation) {
  Wish said;
  for (const Wish& wish : {template_wish(request), thinking_wish(request), top_level_wish(request)}) {
    if (!said.thinking) said.thinking = wish.thinking;
    if (!said.effort) said.effort = wish.effort;
  }
  // An effort of higher rank overrules reasoning_effort altogether, its "none" included.
  const Wish reasoning = reasoning_wish(request);
  if (!said.effort) {
    said.effort = reasoning.effort;
    if (!said.thinking) said.thinking = reasoning.thinking;
  }
  conversation.thinking = said.thinking.value_or(true);
  conversation.effort = said.effort ? said.effort : rules.default_effort;
}

}  // namespace perigee
