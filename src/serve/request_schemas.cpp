// What the OpenAPI document says of the bodies of requests. Fields that are not listed are ignored by the
// server.
#include "serve/anthropic_request.h"
#include "serve/completions.h"
#include "serve/json_output.h"
#include "serve/openai_request.h"
#include "serve/responses_request.h"

namespace perigee {
namespace {

Json number(double least, double most) {
  return {{"type", Json::array({"number", "null"})}, {"minimum", least}, {"maximum", most}};
}

Json integer(std::int64_t least) {
  return {{"type", Json::array({"integer", "null"})}, {"minimum", least}};
}

Json boolean() {
  return {{"type", Json::array({"boolean", "null"})}};
}

Json one_of(std::initializer_list<const char*> types) {
  Json names = Json::array();
  for (const char* type : types) names.push_back(type);
  names.push_back("null");
  return {{"type", std::move(names)}};
}

Json list_of_objects() {
  return {{"type", Json::array({"array", "null"})}, {"items", {{"type", "object"}}}};
}

Json common_fields() {
  return {{"model", one_of({"string"})},
          {"stream", boolean()},
          {"seed", one_of({"integer"})},
          {"temperature", number(0, 2)},
          {"top_p", number(0, 1)},
          {"top_k", integer(-1)},
          {"min_p", number(0, 1)},
          {"presence_penalty", number(-2, 2)},
          {"frequency_penalty", number(-2, 2)},
          {"repetition_penalty", number(0.01, 100)},
          {"logit_bias", one_of({"object"})},
          {"priority", one_of({"integer"})}};
}

// Of chat and raw completions.
Json completion_fields() {
  Json fields = common_fields();
  fields["stream_options"] = one_of({"object"});
  fields["n"] = {{"const", 1}};
  fields["stop"] = one_of({"string", "array"});
  fields["max_tokens"] = integer(1);
  fields["max_completion_tokens"] = integer(1);
  return fields;
}

// Of a conversation in Anthropic's dialect.
Json blocks_fields() {
  Json fields = common_fields();
  fields["stop_sequences"] = one_of({"string", "array"});
  fields["max_tokens"] = integer(1);
  fields["system"] = one_of({"string", "array"});
  fields["messages"] = {{"type", "array"}, {"minItems", 1}, {"items", {{"type", "object"}}}};
  fields["tools"] = list_of_objects();
  for (const char* field : {"tool_choice", "thinking", "output_config", "output_format", "metadata"}) {
    fields[field] = one_of({"object"});
  }
  return fields;
}

std::string schema_text(Json fields, const std::vector<std::string>& required) {
  return json_text({{"type", "object"}, {"required", required}, {"properties", std::move(fields)}});
}

}  // namespace

std::string chat_request_schema() {
  Json fields = completion_fields();
  fields["messages"] = {{"type", "array"}, {"minItems", 1}, {"items", {{"type", "object"}}}};
  fields["tools"] = list_of_objects();
  fields["tool_choice"] = one_of({"string", "object"});
  fields["parallel_tool_calls"] = boolean();
  fields["response_format"] = one_of({"string", "object"});
  fields["reasoning_effort"] = one_of({"string"});
  fields["thinking"] = one_of({"object"});
  fields["chat_template_kwargs"] = one_of({"object"});
  fields["logprobs"] = boolean();
  fields["top_logprobs"] = integer(0);
  return schema_text(std::move(fields), {"messages"});
}

std::string completion_request_schema() {
  Json fields = completion_fields();
  fields["prompt"] = {{"type", Json::array({"string", "array"})}};
  fields["echo"] = boolean();
  fields["logprobs"] = integer(0);
  return schema_text(std::move(fields), {"prompt"});
}

std::string responses_request_schema() {
  Json fields = common_fields();
  fields["input"] = {{"type", Json::array({"string", "array"})}};
  fields["stop"] = one_of({"string", "array"});
  fields["instructions"] = one_of({"string"});
  fields["tools"] = list_of_objects();
  fields["tool_choice"] = one_of({"string", "object"});
  fields["parallel_tool_calls"] = boolean();
  fields["max_output_tokens"] = integer(1);
  fields["reasoning"] = one_of({"object"});
  fields["text"] = one_of({"object"});
  fields["include"] = {{"type", Json::array({"array", "null"})}, {"items", {{"type", "string"}}}};
  fields["metadata"] = one_of({"object"});
  fields["store"] = boolean();
  fields["background"] = {{"const", false}};
  fields["truncation"] = {{"const", "disabled"}};
  fields["top_logprobs"] = {{"const", 0}};
  fields["previous_response_id"] = {{"type", "null"}};
  fields["conversation"] = {{"type", "null"}};
  fields["prompt"] = {{"type", "null"}};
  return schema_text(std::move(fields), {"input"});
}

std::string messages_request_schema() {
  return schema_text(blocks_fields(), {"max_tokens", "messages"});
}

std::string count_request_schema() {
  return schema_text(blocks_fields(), {"messages"});
}

}  // namespace perigee
