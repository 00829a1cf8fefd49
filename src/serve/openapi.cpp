#include "serve/openapi.h"

#include <algorithm>

#include "base/version.h"
#include "serve/json_output.h"

namespace perigee {
namespace {

Json operation_json(const Route& route) {
  Json operation = {{"summary", route.summary},
                    {"responses",
                     {{"200", {{"description", "The answer"}}},
                      {"default", {{"description", "An error object of the route's dialect"}}}}}};
  if (!route.request_schema.empty()) {
    operation["requestBody"] = {
        {"required", true},
        {"content", {{"application/json", {{"schema", Json::parse(route.request_schema)}}}}}};
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
                   {"paths", std::move(paths)}};
  if (!router.options().keys.empty()) {
    document["components"] = {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}};
    document["security"] = Json::array({{{"key", Json::array()}}});
  }
  return json_text(document);
}

}  // namespace perigee
