#include "serve/responses_request.h"

#include <array>

#include "serve/answer_parts.h"
#include "serve/chat_nodes.h"
#include "serve/chat_tools.h"
#include "serve/request_fields.h"
#include "serve/responses_items.h"
#include "serve/responses_json.h"

namespace perigee {
namespace {

// Fields that mean the same in a chat request.
constexpr std::array kSame = {"model",
                              "stream",
                              "temperature",
                              "top_p",
                              "parallel_tool_calls",
                              "tool_choice",
                              "top_k",
                              "min_p",
                              "presence_penalty",
                              "frequency_penalty",
                              "repetition_penalty",
                              "seed",
                              "stop",
                              "logit_bias",
                              "priority"};
// Longer instructions and tools are not repeated: a stream repeats the response three times.
constexpr std::size_t kLongestEcho = std::size_t{256} << 10;

// What this server does not have and must not pretend to have.
void refuse_what_is_missing(const JsonNode& request) {
  constexpr const char* kNothingStored =
      "this server stores no responses; send all items of the conversation in input";
  must_be_absent(request, "previous_response_id", kNothingStored);
  must_be_absent(request, "conversation", kNothingStored);
  must_be_absent(request, "prompt", "there are no templates here; send instructions and input");
  find_boolean(request, "store", "");
  if (find_boolean(request, "background", "").value_or(false)) {
    refuse("background", "is true; replies are only given while the client waits");
  }
  if (find_string(request, "truncation", "").value_or("disabled") != "disabled") {
    refuse("truncation", "is {}; nothing is dropped here, leave it out or send \"disabled\"",
           shown(*find_set(request, "truncation")));
  }
  find_integer(request, "top_logprobs", 0, 0);
}

// True if reasoning is wanted in encrypted_content.
bool read_include(const JsonNode& request) {
  const JsonNode* include = find_set(request, "include");
  if (include == nullptr) return false;
  if (!include->is(JsonKind::kArray)) refuse("include", "is {}; it must be an array", shown(*include));
  bool sealed = false;
  for (std::size_t i = 0; i < include->items.size(); ++i) {
    const JsonNode& item = include->items[i];
    const std::string param = fmt::format("include[{}]", i);
    if (!item.is(JsonKind::kString)) refuse(param, "is {}; it must be a string", shown(item));
    if (item.text == "message.output_text.logprobs") {
      refuse(param, "asks for logprobs, which only /v1/chat/completions gives");
    }
    sealed = sealed || item.text == "reasoning.encrypted_content";
  }
  return sealed;
}

void check_metadata(const JsonNode& request) {
  constexpr std::size_t kMost = 16;
  constexpr std::size_t kLongestKey = 64;
  constexpr std::size_t kLongestValue = 512;
  const JsonNode* metadata = find_object(request, "metadata");
  if (metadata == nullptr) return;
  if (metadata->members.size() > kMost) refuse("metadata", "has more than {} members", kMost);
  for (const JsonNode::Member& member : metadata->members) {
    const bool fits = member.key.size() <= kLongestKey && member.value.is(JsonKind::kString) &&
                      member.value.text.size() <= kLongestValue;
    if (!fits) {
      refuse("metadata", "must have strings of at most {} bytes, called by at most {} bytes", kLongestValue,
             kLongestKey);
    }
  }
}

// What is no function at all goes through as it is, for the reader of tools to refuse.
JsonNode chat_tool(const JsonNode& tool, const std::string& param) {
  if (!tool.is(JsonKind::kObject)) return tool;
  const JsonNode* type = find_set(tool, "type");
  if (type == nullptr || type->text != "function") {
    refuse(param + ".type", "is {}; this server runs no tools, send functions, of type \"function\"",
           type == nullptr ? "missing" : shown(*type));
  }
  JsonNode function = object_node();
  for (const char* key : {"name", "description", "parameters", "strict"})
    copy_member(tool, key, function, key);
  JsonNode chat = object_node();
  add_member(chat, "type", *type);
  add_member(chat, "function", std::move(function));
  return chat;
}

void add_tools(const JsonNode& request, JsonNode& chat, RequestPlaces& places) {
  const JsonNode* tools = find_set(request, "tools");
  if (tools == nullptr) return;
  if (!tools->is(JsonKind::kArray)) return add_member(chat, "tools", *tools);
  add_chat_tools(*tools, chat, places, chat_tool);
}

void check_tool_choice(const JsonNode& request) {
  const JsonNode* choice = find_set(request, "tool_choice");
  const JsonNode* type = choice == nullptr ? nullptr : find_set(*choice, "type");
  if (type != nullptr && type->text != "function") {
    refuse("tool_choice.type", "is {}; it must be \"function\"", shown(*type));
  }
}

void add_reasoning(const JsonNode& request, JsonNode& chat, RequestPlaces& places) {
  const JsonNode* reasoning = find_object(request, "reasoning");
  if (reasoning == nullptr) return;
  places.add("reasoning_effort", "reasoning.effort");
  copy_member(*reasoning, "effort", chat, "reasoning_effort");
}

// {"type":"json_schema","name":…,"schema":…} is wrapped once more in a chat request.
void add_format(const JsonNode& request, JsonNode& chat, RequestPlaces& places) {
  const JsonNode* text = find_object(request, "text");
  const JsonNode* format = text == nullptr ? nullptr : find_set(*text, "format");
  if (format == nullptr) return;
  places.add("response_format", "text.format");
  places.add("response_format.json_schema", "text.format");
  const JsonNode* type = find_set(*format, "type");
  if (type == nullptr || type->text != "json_schema") return add_member(chat, "response_format", *format);
  JsonNode wrapped = object_node();
  add_member(wrapped, "type", *type);
  add_member(wrapped, "json_schema", *format);
  add_member(chat, "response_format", std::move(wrapped));
}

JsonNode chat_of(const JsonNode& request, RequestPlaces& places) {
  JsonNode chat = object_node();
  for (const char* key : kSame) copy_member(request, key, chat, key);
  places.add("max_completion_tokens", "max_output_tokens");
  copy_member(request, "max_output_tokens", chat, "max_completion_tokens");
  check_tool_choice(request);
  add_tools(request, chat, places);
  add_reasoning(request, chat, places);
  add_format(request, chat, places);
  find_string(request, "instructions", "");
  const JsonNode* input = find_set(request, "input");
  if (input == nullptr) refuse("input", "is missing; send a string or an array of items");
  places.add("messages", "input");
  add_member(chat, "messages", messages_of_input(*input, find_set(request, "instructions"), places));
  return chat;
}

Json echo_of(const JsonNode* value, Json otherwise) {
  return value == nullptr || value->literal.size() > kLongestEcho ? std::move(otherwise) : json_of(*value);
}

const JsonNode* find_below(const JsonNode& request, const char* object, const char* key) {
  const JsonNode* holder = find_set(request, object);
  return holder == nullptr ? nullptr : find_set(*holder, key);
}

Json text_echo(const JsonNode& request) {
  const JsonNode* format = find_below(request, "text", "format");
  return {{"format", format == nullptr ? Json{{"type", "text"}} : echo_of(format, nullptr)}};
}

Json begun_response(const JsonNode& request, const ChatRequest& chat, const ServeContext& context) {
  const auto echo = [&](const char* key, Json otherwise) {
    return echo_of(find_set(request, key), std::move(otherwise));
  };
  return {{"id", new_answer_id("resp_")},
          {"object", "response"},
          {"created_at", unix_seconds()},
          {"completed_at", nullptr},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", echo("instructions", nullptr)},
          {"max_output_tokens", echo("max_output_tokens", nullptr)},
          {"metadata", echo("metadata", Json::object())},
          {"model", context.model.names.front()},
          {"output", Json::array()},
          {"parallel_tool_calls", !chat.rules.one_call},
          {"previous_response_id", nullptr},
          {"reasoning",
           {{"effort", echo_of(find_below(request, "reasoning", "effort"), nullptr)}, {"summary", nullptr}}},
          {"store", false},
          {"temperature", chat.sampling.temperature},
          {"text", text_echo(request)},
          {"tool_choice", echo("tool_choice", "auto")},
          {"tools", echo("tools", Json::array())},
          {"top_p", chat.sampling.top_p},
          {"truncation", "disabled"},
          {"usage", nullptr}};
}

}  // namespace

ResponsesRequest read_responses_request(const JsonNode& request, const ServeContext& context) {
  ResponsesRequest read;
  refuse_what_is_missing(request);
  check_metadata(request);
  read.sealed_reasoning = read_include(request);
  const JsonNode chat = chat_of(request, read.places);
  read.chat = read.places.renaming([&] { return read_chat_request(chat, context); });
  read.response = begun_response(request, read.chat, context);
  return read;
}

}  // namespace perigee
