#include "text/system_messages.h"

#include <fmt/format.h>

namespace perigee {

std::string tools_body(std::string_view tools_json) {
  return fmt::format(
      "# Tools\n"
      "Here are the available tools, described in JSONSchema.\n"
      "\n"
      "```json\n"
      "{}\n"
      "```",
      tools_json);
}

std::string added_tools_body(std::string_view tools_json) {
  return fmt::format(
      "## New Tools Available\n"
      "The system dynamically extends the toolset via lazy-loading.\n"
      "You have access to all existing and extended tools.\n"
      "Here are the specs for the extended tools.\n"
      "\n"
      "```json\n"
      "{}\n"
      "```",
      tools_json);
}

std::string effort_body(Effort effort) {
  return fmt::format(
      "`thinking_effort` guides on how much to think in your thinking channel (not including the response "
      "channel), supported values include `low`, `medium`, `high`, and `max`.\n"
      "Now the system is invoked with `thinking_effort={}`.",
      effort_name(effort));
}

std::string tool_choice_body(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::kRequired:
      return "The system is invoked with `tool_choice=required`.\n"
             "You MUST call tools in the next message.";
    case ToolChoice::kNone:
      return "The system is invoked with `tool_choice=none`.\n"
             "You MUST NOT call any tools in the next message.";
    case ToolChoice::kAuto:
    case ToolChoice::kNamed:
      break;
  }
  return {};
}

std::string response_format_body(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::kText) return {};
  const bool has_schema = format.kind == ResponseFormat::Kind::kJsonSchema;
  std::string body = fmt::format(
      "The system is invoked with `response_format={}`.\n"
      "Your response must be raw JSON data without markdown code blocks (```json) or any additional "
      "formatting.",
      has_schema ? "json_schema" : "json_object");
  if (has_schema) {
    body += fmt::format(
        "\n"
        "The JSON data must match the following schema:\n"
        "```json\n"
        "{}\n"
        "```",
        format.schema_json);
  }
  return body;
}

}  // namespace perigee
