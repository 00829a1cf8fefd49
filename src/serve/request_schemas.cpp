// What the OpenAPI document says of the bodies of chat and raw completions. Fields that are not listed are
// ignored by the server.
#include "serve/completions.h"
#include "serve/json_output.h"
#include "serve/openai_request.h"

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

Json shared_fields() {
  return {{"model", one_of({"string"})},
          {"stream", boolean()},
          {"stream_options", one_of({"object"})},
          {"n", {{"const", 1}}},
          {"max_tokens", integer(1)},
          {"max_completion_tokens", integer(1)},
          {"stop", one_of({"string", "array"})},
          {"seed", one_of({"integer"})},
          {"temperature", number(0, 2)},
          {"top_p", number(0, 1)},
          {"top_k", integer(-1)},
          {"min_p", number(0, 1)},
          {"presence_penalty", number(-2, 2)},
          {"frequency_penalty", number(-2, 2)},
          {"repetition_penalty", number(0.01, 100)},
          {"logit_bias", one_of({"object"})}};
}

std::string schema_text(Json fields, const char* required) {
  return json_text(
      {{"type", "object"}, {"required", Json::array({required})}, {"properties", std::move(fields)}});
}

}  // namespace

std::string chat_request_schema() {
  Json fields = shared_fields();
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
  return schema_text(std::move(fields), "messages");
}

std::string completion_request_schema() {
  Json fields = shared_fields();
  fields["prompt"] = {{"type", Json::array({"string", "array"})}};
  fields["echo"] = boolean();
  fields["logprobs"] = integer(0);
  return schema_text(std::move(fields), "prompt");
}

}  // namespace perigee
