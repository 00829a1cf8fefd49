#include "text/tools_json.h"

#include <algorithm>

#include "text/json_fields.h"
#include "text/json_write.h"

namespace perigee {
namespace {

constexpr std::size_t kMostTools = 128;
constexpr std::size_t kLongestName = 256;  // bytes

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

// {"type":"function","function":{"name":…}}, or flat as the Responses API has it.
std::string chosen_name(const JsonNode& choice) {
  const JsonNode* function = find_set(choice, "function");
  const JsonNode* name = find_set(function == nullptr ? choice : *function, "name");
  return name != nullptr && name->is(JsonKind::kString) ? name->text : std::string();
}

void read_named_choice(const JsonNode& choice, const ToolReader& tools, bool lenient,
                       Conversation& conversation) {
  const std::string name = chosen_name(choice);
  const JsonNode* type = find_set(choice, "type");
  if (name.empty() || (type != nullptr && type->text != "function")) {
    refuse("tool_choice",
           "names no function; send {{\"type\":\"function\",\"function\":{{\"name\":\"…\"}}}}");
  }
  if (!lenient && !tools.has(name)) {
    refuse("tool_choice", "names a function that is not among tools; declare it or choose another");
  }
  conversation.tool_choice = ToolChoice::kNamed;
  conversation.named_tool = name;
}

}  // namespace

std::string ToolReader::read(const JsonNode& tools, const std::string& param) {
  if (!tools.is(JsonKind::kArray)) refuse(param, "is {}; it must be an array of tools", shown(tools));
  if (tools.items.empty()) return {};
  if (!lenient_ && tools.items.size() > kMostTools) {
    refuse(param, "has {} tools; at most {} are allowed", tools.items.size(), kMostTools);
  }
  for (std::size_t i = 0; i < tools.items.size(); ++i) {
    check_tool(tools.items[i], fmt::format("{}[{}]", param, i));
  }
  return sorted_compact_json(tools);
}

void ToolReader::check_tool(const JsonNode& tool, const std::string& param) {
  if (!tool.is(JsonKind::kObject)) refuse(param, "is {}; a tool is an object", shown(tool));
  const JsonNode* type = find_set(tool, "type");
  const bool builtin = type != nullptr && type->text == "builtin_function";
  if (!lenient_ && !builtin && (type == nullptr || type->text != "function")) {
    refuse(param + ".type", "is {}; it must be \"function\" or \"builtin_function\"",
           type == nullptr ? "missing" : shown(*type));
  }
  const JsonNode* function = find_set(tool, "function");
  if (function == nullptr || !function->is(JsonKind::kObject)) {
    if (lenient_) return;
    refuse(param + ".function", "is {}; it must be an object with a name",
           function == nullptr ? "missing" : shown(*function));
  }
  const std::string name = find_string(*function, "name", param + ".function").value_or("");
  if (!lenient_) check_name(name, builtin, param + ".function.name");
  add_name(name, param + ".function.name");
  const JsonNode* parameters = find_set(*function, "parameters");
  if (!lenient_ && parameters != nullptr && !parameters->is(JsonKind::kObject)) {
    refuse(param + ".function.parameters", "is {}; it must be a JSON schema, an object", shown(*parameters));
  }
}

// A built-in function may begin with a dollar sign ($web_search).
void ToolReader::check_name(const std::string& name, bool builtin, const std::string& param) const {
  std::string_view rest = name;
  if (builtin && rest.starts_with('$')) rest.remove_prefix(1);
  if (!is_name(rest)) {
    refuse(param,
           "is no function name; it must begin with a letter or _, go on with letters, digits, _ and -, and "
           "have at most {} characters",
           kLongestName);
  }
}

void ToolReader::add_name(const std::string& name, const std::string& param) {
  if (!known_.insert(name).second && !lenient_)
    refuse(param, "is declared twice; give every tool its own name");
  names_.push_back(name);
}

void read_tool_choice(const JsonNode* choice, const ToolReader& tools, bool lenient,
                      Conversation& conversation) {
  if (choice == nullptr) return;
  if (choice->is(JsonKind::kObject)) return read_named_choice(*choice, tools, lenient, conversation);
  const std::string& word = choice->text;
  if (word == "auto") {
    conversation.tool_choice = ToolChoice::kAuto;
  } else if (word == "none") {
    conversation.tool_choice = ToolChoice::kNone;
  } else if (word == "required") {
    if (!lenient && tools.names().empty()) {
      refuse("tool_choice", "is \"required\" and there are no tools; declare some or leave tool_choice out");
    }
    conversation.tool_choice = ToolChoice::kRequired;
  } else {
    refuse("tool_choice", "is {}; it must be \"auto\", \"none\", \"required\" or an object naming a function",
           shown(*choice));
  }
}

}  // namespace perigee
