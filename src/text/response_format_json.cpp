#include "text/response_format_json.h"

#include "text/json_fields.h"
#include "text/json_write.h"

namespace perigee {
namespace {

constexpr const char* kParam = "response_format";
constexpr const char* kWrapperParam = "response_format.json_schema";

// The schema in its wrapper: `schema`, or `json_schema` as some clients have it.
const JsonNode* inner_schema(const JsonNode& wrapper) {
  const JsonNode* schema = find_set(wrapper, "schema");
  return schema != nullptr ? schema : find_set(wrapper, "json_schema");
}

void check_wrapper(const JsonNode* wrapper) {
  if (wrapper == nullptr || !wrapper->is(JsonKind::kObject)) {
    refuse(kWrapperParam, "is {}; it must be an object with name and schema",
           wrapper == nullptr ? "missing" : shown(*wrapper));
  }
  if (find_string(*wrapper, "name", kWrapperParam).value_or("").empty()) {
    refuse(member_param(kWrapperParam, "name"), "is missing; give the schema a name");
  }
  find_boolean(*wrapper, "strict", kWrapperParam);
  const JsonNode* schema = inner_schema(*wrapper);
  if (schema == nullptr || !schema->is(JsonKind::kObject)) {
    refuse(member_param(kWrapperParam, "schema"), "is {}; it must be a JSON schema, an object",
           schema == nullptr ? "missing" : shown(*schema));
  }
}

std::string schema_json(const JsonNode* wrapper) {
  if (wrapper == nullptr) return "null";
  const JsonNode* schema = inner_schema(*wrapper);
  return sorted_compact_json(schema != nullptr ? *schema : *wrapper);
}

}  // namespace

ResponseFormat read_response_format(const JsonNode& format, bool lenient) {
  if (!format.is(JsonKind::kString) && !format.is(JsonKind::kObject)) {
    refuse(kParam, "is {}; it must be an object with a type", shown(format));
  }
  const JsonNode* type = format.is(JsonKind::kString) ? &format : find_set(format, "type");
  if (type != nullptr && type->text == "text") return {};
  if (type != nullptr && type->text == "json_object")
    return {.kind = ResponseFormat::Kind::kJsonObject, .schema_json = {}};
  if (type == nullptr || type->text != "json_schema") {
    refuse(type == &format ? kParam : member_param(kParam, "type"),
           "is {}; it must be \"text\", \"json_object\" or \"json_schema\"",
           type == nullptr ? "missing" : shown(*type));
  }
  const JsonNode* wrapper = find_set(format, "json_schema");
  if (!lenient) check_wrapper(wrapper);
  return {.kind = ResponseFormat::Kind::kJsonSchema, .schema_json = schema_json(wrapper)};
}

}  // namespace perigee
