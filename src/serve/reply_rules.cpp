#include "serve/reply_rules.h"

#include <memory>

#include "grammar/reply_grammar.h"
#include "text/json_fields.h"

namespace perigee {
namespace {

constexpr const char* kSchemaParam = "response_format.json_schema.schema";

// A schema that a client insists on (strict is true) must be followed; any other if it can be.
ToolRules rules_of_tool(const JsonNode& tool) {
  ToolRules rules;
  const JsonNode* function = find_set(tool, "function");
  if (function == nullptr) return rules;
  rules.name = find_string(*function, "name", "").value_or("");
  const JsonNode* strict = find_set(*function, "strict");
  if (strict != nullptr && !strict->is_true()) return rules;
  if (const JsonNode* parameters = find_set(*function, "parameters")) {
    rules.parameters = std::string(parameters->literal);
    rules.arguments =
        strict != nullptr ? ToolRules::Arguments::kSchema : ToolRules::Arguments::kSchemaIfPossible;
  }
  return rules;
}

void add_tools(const std::string& tools_json, std::vector<ToolRules>& tools) {
  if (tools_json.empty()) return;
  const JsonTree tree = JsonTree::parse(tools_json, "tools");
  for (const JsonNode& tool : tree.root().items) tools.push_back(rules_of_tool(tool));
}

std::vector<ToolRules> callable_tools(const Conversation& conversation) {
  std::vector<ToolRules> tools;
  add_tools(conversation.tools_json, tools);
  for (const Message& message : conversation.messages) add_tools(message.tools_json, tools);
  const bool named = conversation.tool_choice == ToolChoice::kNamed;
  std::erase_if(tools, [&](const ToolRules& tool) {
    return tool.name.empty() || (named && tool.name != conversation.named_tool);
  });
  return tools;
}

CallPolicy call_policy(const Conversation& conversation, bool any_tools) {
  if (!any_tools || conversation.tool_choice == ToolChoice::kNone) return CallPolicy::kForbidden;
  return conversation.tool_choice == ToolChoice::kAuto ? CallPolicy::kAllowed : CallPolicy::kRequired;
}

ResponseForm response_form(const Conversation& conversation, bool strict) {
  switch (conversation.response_format.kind) {
    case ResponseFormat::Kind::kText:
      break;
    case ResponseFormat::Kind::kJsonObject:
      return ResponseForm::kJsonObject;
    case ResponseFormat::Kind::kJsonSchema:
      return strict ? ResponseForm::kJsonSchema : ResponseForm::kText;
  }
  return ResponseForm::kText;
}

std::shared_ptr<const Grammar> grammar_of(const ReplyGrammars& grammars, const ReplyRules& rules) {
  try {
    return grammars.reply(rules);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    throw RequestError(rules.response == ResponseForm::kJsonSchema ? kSchemaParam : "tools", error.what());
  }
}

// The reply goes on behind what a partial message says already.
void accept_partial(const Conversation& conversation, Constraint& constraint) {
  const Message& last = conversation.messages.back();
  if (!last.partial) return;
  std::string said;
  for (const ContentPart& part : last.content) said += part.text;
  if (said.empty() || constraint.accept_text(said)) return;
  throw RequestError(fmt::format("messages[{}].content", conversation.messages.size() - 1),
                     "the partial message is no beginning of what response_format asks for");
}

}  // namespace

TokenFilter reply_filter(const ServeContext& context, const Conversation& conversation, Channel start,
                         const RuleWishes& wishes) {
  if (context.grammars == nullptr || conversation.messages.empty()) return {};
  ReplyRules rules;
  rules.start = start;
  rules.tools = callable_tools(conversation);
  rules.response = response_form(conversation, wishes.strict_response);
  if (rules.tools.empty() && rules.response == ResponseForm::kText) return {};
  if (rules.response == ResponseForm::kJsonSchema) rules.schema = conversation.response_format.schema_json;
  rules.calls = call_policy(conversation, !rules.tools.empty());
  rules.one_call = wishes.one_call || conversation.tool_choice == ToolChoice::kNamed;
  const auto constraint = std::make_shared<Constraint>(grammar_of(*context.grammars, rules));
  if (start == Channel::kResponse) accept_partial(conversation, *constraint);
  return [constraint](std::span<const std::uint32_t> generated, std::span<std::uint64_t> allowed) {
    constraint->filter(generated, allowed);
  };
}

}  // namespace perigee
