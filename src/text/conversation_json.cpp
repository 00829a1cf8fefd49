#include "text/conversation_json.h"

#include "text/json_fields.h"
#include "text/message_json.h"
#include "text/response_format_json.h"
#include "text/thinking_json.h"
#include "text/tool_results.h"
#include "text/tools_json.h"

namespace perigee {
namespace {

const JsonNode& find_messages(const JsonNode& request, bool lenient) {
  if (!request.is(JsonKind::kArray) && !request.is(JsonKind::kObject)) {
    throw RequestError("messages", "the request is not an object with messages");
  }
  const JsonNode* messages = request.is(JsonKind::kArray) ? &request : find_set(request, "messages");
  if (messages == nullptr) refuse("messages", "is missing; send an array of at least one message");
  if (!messages->is(JsonKind::kArray)) {
    refuse("messages", "is {}; it must be an array of messages", shown(*messages));
  }
  if (messages->items.empty() && !lenient) refuse("messages", "is empty; send at least one message");
  return *messages;
}

// In time for a sentence that names the message; the prompt itself would only know its count.
void check_results_have_names(const std::vector<Message>& messages) {
  for (const PlacedMessage& placed : place_messages(messages)) {
    if (placed.message->role != Role::kTool || !placed.tool.empty()) continue;
    refuse(fmt::format("messages[{}].tool_call_id", placed.message - messages.data()),
           "answers no call of the assistant message before it; send that call, or give the result a name");
  }
}

void check_partial_with_format(const Conversation& conversation) {
  if (conversation.messages.empty() || !conversation.messages.back().partial) return;
  if (conversation.response_format.kind != ResponseFormat::Kind::kJsonObject) return;
  refuse(fmt::format("messages[{}].partial", conversation.messages.size() - 1),
         "cannot be combined with response_format json_object; leave one of them out");
}

}  // namespace

Conversation read_conversation(const JsonNode& request, const ConversationRules& rules) {
  Conversation conversation;
  const JsonNode& messages = find_messages(request, rules.lenient);
  ToolReader tools(rules.lenient);
  if (const JsonNode* declared = find_set(request, "tools")) {
    conversation.tools_json = tools.read(*declared, "tools");
  }
  conversation.messages.reserve(messages.items.size());
  for (std::size_t i = 0; i < messages.items.size(); ++i) {
    const bool last = i + 1 == messages.items.size();
    conversation.messages.push_back(
        read_message(messages.items[i], fmt::format("messages[{}]", i), last, rules, tools));
  }
  check_results_have_names(conversation.messages);
  read_tool_choice(find_set(request, "tool_choice"), tools, rules.lenient, conversation);
  conversation.tool_names = tools.names();
  if (const JsonNode* format = find_set(request, "response_format")) {
    conversation.response_format = read_response_format(*format, rules.lenient);
  }
  if (!rules.lenient) check_partial_with_format(conversation);
  read_thinking(request, rules, conversation);
  return conversation;
}

}  // namespace perigee
