#include "serve/openapi.h"

#include <algorithm>

#include "base/version.h"
#include "serve/json_output.h"

namespace perigee {
namespace {

constexpr const char* kJsonType = "application/json";

const char* error_name(ApiDialect dialect) {
  return dialect == ApiDialect::kOpenAi ? "Error" : "MessagesError";
}

Json object_of(std::initializer_list<std::pair<const char*, Json>> members) {
  Json names = Json::array();
  Json properties = Json::object();
  for (const auto& [name, schema] : members) {
    names.push_back(name);
    properties[name] = schema;
  }
  return {{"type", "object"}, {"required", std::move(names)}, {"properties", std::move(properties)}};
}

// docs/serving.md, "Errors".
Json error_schemas() {
  const Json text = {{"type", "string"}};
  const Json text_or_null = {{"type", Json::array({"string", "null"})}};
  const Json openai =
      object_of({{"message", text}, {"type", text}, {"param", text_or_null}, {"code", text_or_null}});
  const Json anthropic = object_of({{"type", text}, {"message", text}});
  return {{error_name(ApiDialect::kOpenAi), object_of({{"error", openai}})},
          {error_name(ApiDialect::kAnthropic),
           object_of({{"type", {{"const", "error"}}}, {"error", anthropic}})}};
}

Json content_of(const std::string& type, Json schema) {
  return {{type, {{"schema", std::move(schema)}}}};
}

// A route whose body has a field "stream" may be asked for one.
Json answer_content(const Route& route) {
  const bool is_json = route.answer_type == kJsonType;
  Json content = content_of(route.answer_type, {{"type", is_json ? "object" : "string"}});
  if (!route.request_schema.empty() && Json::parse(route.request_schema)["properties"].contains("stream")) {
    content.update(content_of("text/event-stream", {{"type", "string"}}));
  }
  return content;
}

Json operation_json(const Route& route) {
  const char* error = error_name(dialect_of_path(route.path));
  const Json error_reference = {{"$ref", std::string("#/components/schemas/") + error}};
  Json operation = {{"summary", route.summary},
                    {"responses",
                     {{"200", {{"description", "The answer"}, {"content", answer_content(route)}}},
                      {"default",
                       {{"description", "What is wrong, in words for people and programs"},
                        {"content", content_of(kJsonType, error_reference)}}}}}};
  if (!route.request_schema.empty()) {
    operation["requestBody"] = {{"required", true},
                                {"content", content_of(kJsonType, Json::parse(route.request_schema))}};
  }
  const std::size_t brace = route.path.find('{');
  if (brace != std::string::npos) {
    const std::string name = route.path.substr(brace + 1, route.path.size() - brace - 2);
    operation["parameters"] =
        Json::array({{{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  }
  if (route.open) operation["security"] = Json::array();
  return operation;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

std::string openapi_document(const Router& router) {
  Json paths = Json::object();
  for (const Route& route : router.routes())
    paths[route.path][lower_case(route.method)] = operation_json(route);
  Json document = {{"openapi", "3.1.0"},
                   {"info", {{"title", "Perigee"}, {"version", kVersion}}},
                   {"paths", std::move(paths)},
                   {"components", {{"schemas", error_schemas()}}}};
  if (!router.options().keys.empty()) {
    document["components"]["securitySchemes"] = {{"key", {{"type", "http"}, {"scheme", "bearer"}}}};
    document["security"] = Json::array({{{"key", Json::array()}}});
  }
  return json_text(document);
}

}  // namespace perigee
