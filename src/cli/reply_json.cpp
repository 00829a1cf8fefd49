#include "cli/reply_json.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json();
}

}  // namespace

Json call_function_json(const std::string& name, const std::string& arguments) {
  return {{"name", name}, {"arguments", arguments}};
}

Json reply_message_json(const ReplyMessage& message) {
  Json calls = Json::array();
  for (const ReplyCall& call : message.calls) {
    calls.push_back(
        {{"id", call.id}, {"type", "function"}, {"function", call_function_json(call.name, call.arguments)}});
  }
  return {{"role", "assistant"},
          {"content", text_or_null(message.content)},
          {"reasoning_content", text_or_null(message.reasoning)},
          {"tool_calls", calls}};
}

}  // namespace perigee
