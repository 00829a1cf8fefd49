#include "serve/anthropic_request.h"

#include <array>
#include <utility>

#include "serve/anthropic_messages.h"
#include "serve/chat_nodes.h"
#include "serve/chat_tools.h"
#include "serve/request_fields.h"

namespace perigee {
namespace {

// Fields that mean the same in a chat request.
constexpr std::array kSame = {"model",
                              "stream",
                              "max_tokens",
                              "temperature",
                              "top_p",
                              "top_k",
                              "thinking",
                              "min_p",
                              "presence_penalty",
                              "frequency_penalty",
                              "repetition_penalty",
                              "seed",
                              "logit_bias",
                              "priority"};

// Tools that are known by their type alone exist on Anthropic's servers or in its models, not here.
JsonNode chat_tool(const JsonNode& tool, const std::string& param) {
  if (!tool.is(JsonKind::kObject)) refuse(param, "is {}; a tool is an object", shown(tool));
  if (find_string(tool, "type", param).value_or("custom") != "custom") {
    refuse(param + ".type",
           "is {}; this server knows only tools of the type \"custom\", with an input_schema",
           shown(*find_set(tool, "type")));
  }
  find_string(tool, "description", param);
  find_boolean(tool, "strict", param);
  const JsonNode* schema = find_set(tool, "input_schema");
  if (schema == nullptr || !schema->is(JsonKind::kObject)) {
    refuse(param + ".input_schema", "is {}; it must be a JSON schema, an object",
           schema == nullptr ? "missing" : shown(*schema));
  }
  JsonNode function = object_node();
  for (const char* key : {"name", "description", "strict"}) copy_member(tool, key, function, key);
  add_member(function, "parameters", *schema);
  JsonNode chat = object_node();
  add_member(chat, "type", text_node("function"));
  add_member(chat, "function", std::move(function));
  return chat;
}

// True if there are any.
bool add_tools(const JsonNode& request, JsonNode& chat, RequestPlaces& places) {
  const JsonNode* tools = find_set(request, "tools");
  if (tools == nullptr) return false;
  if (!tools->is(JsonKind::kArray)) refuse("tools", "is {}; it must be an array of tools", shown(*tools));
  add_chat_tools(*tools, chat, places, chat_tool);
  return !tools->items.empty();
}

JsonNode named_choice(const JsonNode& choice) {
  const auto name = find_string(choice, "name", "tool_choice");
  if (!name) refuse("tool_choice.name", "is missing; name the tool that must be called");
  JsonNode function = object_node();
  add_member(function, "name", text_node(*name));
  JsonNode chat = object_node();
  add_member(chat, "type", text_node("function"));
  add_member(chat, "function", std::move(function));
  return chat;
}

void add_tool_choice(const JsonNode& request, bool any_tools, JsonNode& chat) {
  const JsonNode* choice = find_object(request, "tool_choice");
  if (choice == nullptr) return;
  const std::string type = find_string(*choice, "type", "tool_choice").value_or("");
  const bool forced = type == "any" || type == "tool";
  if (!forced && type != "auto" && type != "none") {
    refuse("tool_choice.type", "is {}; it must be \"auto\", \"any\", \"tool\" or \"none\"",
           type.empty() ? "missing" : shown(*find_set(*choice, "type")));
  }
  if (forced && !any_tools) {
    refuse("tool_choice", "asks for a call and there are no tools; declare some or leave tool_choice out");
  }
  add_member(chat, "tool_choice",
             type == "tool" ? named_choice(*choice) : text_node(type == "any" ? "required" : type));
  if (find_boolean(*choice, "disable_parallel_tool_use", "tool_choice").value_or(false)) {
    add_member(chat, "parallel_tool_calls", boolean_node(false));
  }
}

// Adaptive thinking is the model's own: how much is for the effort to say.
std::optional<std::size_t> read_budget(const JsonNode& request, RequestPlaces& places) {
  const JsonNode* thinking = find_object(request, "thinking");
  if (thinking == nullptr) return std::nullopt;
  places.add("budget_tokens", "thinking.budget_tokens");
  const auto budget = places.renaming([&] { return find_integer(*thinking, "budget_tokens", 1); });
  if (!budget || find_string(*thinking, "type", "thinking").value_or("enabled") != "enabled") return {};
  return static_cast<std::size_t>(*budget);
}

// `place` is what `format` is called in the request.
void add_format(const JsonNode& format, const std::string& place, JsonNode& chat, RequestPlaces& places) {
  if (!format.is(JsonKind::kObject)) refuse(place, "is {}; it must be an object", shown(format));
  if (find_string(format, "type", place).value_or("") != "json_schema") {
    refuse(place + ".type", "must be \"json_schema\"");
  }
  JsonNode wrapper = object_node();
  add_member(wrapper, "name", text_node("output"));  // the prompt does not show it
  copy_member(format, "schema", wrapper, "schema");
  JsonNode chosen = object_node();
  add_member(chosen, "type", text_node("json_schema"));
  add_member(chosen, "json_schema", std::move(wrapper));
  add_member(chat, "response_format", std::move(chosen));
  places.add("response_format", place);
  places.add("response_format.json_schema", place);
}

// output_format is what the format was called while it was new.
void add_output(const JsonNode& request, JsonNode& chat, RequestPlaces& places) {
  const JsonNode* format = find_set(request, "output_format");
  std::string place = "output_format";
  if (const JsonNode* output = find_object(request, "output_config")) {
    places.add("reasoning_effort", "output_config.effort");
    copy_member(*output, "effort", chat, "reasoning_effort");
    if (const JsonNode* newer = find_set(*output, "format")) {
      format = newer;
      place = "output_config.format";
    }
  }
  if (format != nullptr) add_format(*format, place, chat, places);
}

std::string read_user(const JsonNode& request) {
  const JsonNode* metadata = find_object(request, "metadata");
  return metadata == nullptr ? "" : find_string(*metadata, "user_id", "metadata").value_or("");
}

}  // namespace

MessagesRequest read_count_request(const JsonNode& request, const ServeContext& context) {
  MessagesRequest read;
  JsonNode chat = object_node();
  for (const char* key : kSame) copy_member(request, key, chat, key);
  read.places.add("stop", "stop_sequences");
  copy_member(request, "stop_sequences", chat, "stop");
  add_tool_choice(request, add_tools(request, chat, read.places), chat);
  read.thinking_budget = read_budget(request, read.places);
  add_output(request, chat, read.places);
  read.user = read_user(request);
  add_member(chat, "messages", messages_of_blocks(request, read.places));
  read.chat = read.places.renaming([&] { return read_chat_request(chat, context); });
  read.max_tokens = std::exchange(read.chat.max_tokens, 0);
  return read;
}

MessagesRequest read_messages_request(const JsonNode& request, const ServeContext& context) {
  if (find_set(request, "max_tokens") == nullptr) {
    refuse("max_tokens", "is missing; say how long the reply may become");
  }
  return read_count_request(request, context);
}

}  // namespace perigee
