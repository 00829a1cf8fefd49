#include "text/message_json.h"

#include "text/json_fields.h"

namespace perigee {
namespace {

std::optional<Role> role_of(std::string word) {
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (word == "system" || word == "developer") return Role::kSystem;
  if (word == "user") return Role::kUser;
  if (word == "assistant") return Role::kAssistant;
  if (word == "tool") return Role::kTool;
  return std::nullopt;
}

class MessageReader {
 public:
  MessageReader(const JsonNode& node, const std::string& param, const ConversationRules& rules)
      : node_(node), param_(param), rules_(rules) {
    if (!node.is(JsonKind::kObject)) refuse(param, "is {}; a message is an object", shown(node));
  }

  Message read(bool last, ToolReader& tools) {
    read_role();
    message_.name = string_or_empty("name");
    read_content();
    if (message_.role == Role::kAssistant) read_assistant();
    if (message_.role == Role::kTool) read_tool_result();
    read_tools(tools);
    read_partial(last);
    return std::move(message_);
  }

 private:
  std::string at(std::string_view key) const { return member_param(param_, key); }

  std::string string_or_empty(std::string_view key) const {
    return find_string(node_, key, param_).value_or("");
  }

  void read_role() {
    const JsonNode* word = find_set(node_, "role");
    const auto role = word != nullptr && word->is(JsonKind::kString) ? role_of(word->text) : std::nullopt;
    if (!role) {
      refuse(at("role"), "is {}; it must be system, developer, user, assistant or tool",
             word == nullptr ? "missing" : shown(*word));
    }
    message_.role = *role;
  }

  void read_content() {
    const JsonNode* content = find_set(node_, "content");
    if (content == nullptr) return;
    if (content->is(JsonKind::kString)) {
      message_.content.push_back({.text = content->text, .image = {}});
      return;
    }
    if (!content->is(JsonKind::kArray)) {
      refuse(at("content"), "is {}; it must be a string or an array of parts", shown(*content));
    }
    message_.content.reserve(content->items.size());
    for (std::size_t i = 0; i < content->items.size(); ++i) {
      message_.content.push_back(read_part(content->items[i], fmt::format("{}.content[{}]", param_, i)));
    }
  }

  ContentPart read_part(const JsonNode& part, const std::string& param) const {
    if (!part.is(JsonKind::kObject)) refuse(param, "is {}; a part is an object with a type", shown(part));
    const std::string type = find_string(part, "type", param).value_or("text");
    if (type == "image_url" || type == "image") return read_image(part, type, param);
    const auto text = find_string(part, "text", param);
    if (!text && type == "text") refuse(param + ".text", "is missing; a text part has a text");
    if (!text) {
      refuse(param + ".type", "is {}; a part is text or image_url", shown(*find_set(part, "type")));
    }
    return {.text = *text, .image = {}};
  }

  // The URL is a string, or the `url` of an object; an `image` part may hold something else, which is for
  // image_size to understand.
  ContentPart read_image(const JsonNode& part, const std::string& type, const std::string& param) const {
    const std::string place = member_param(param, type);
    const JsonNode* image = find_set(part, type);
    std::string url;
    if (image != nullptr && image->is(JsonKind::kString)) url = image->text;
    if (image != nullptr && image->is(JsonKind::kObject))
      url = find_string(*image, "url", place).value_or("");
    if (url.empty() && type == "image_url") {
      refuse(place, "has no url; give the image as a data URL");
    }
    if (!rules_.image_size) refuse(place, "is an image, and images cannot be had here; send text only");
    const ImageSize size = rules_.image_size(url, part, place);
    return {.text = std::move(url), .image = size};
  }

  void read_assistant() {
    message_.reasoning = string_or_empty("reasoning_content");
    if (message_.reasoning.empty()) message_.reasoning = string_or_empty("reasoning");
    const JsonNode* calls = find_set(node_, "tool_calls");
    if (calls == nullptr) return;
    if (!calls->is(JsonKind::kArray)) {
      refuse(at("tool_calls"), "is {}; it must be an array of calls", shown(*calls));
    }
    message_.calls.reserve(calls->items.size());
    for (std::size_t i = 0; i < calls->items.size(); ++i) {
      message_.calls.push_back(read_call(calls->items[i], fmt::format("{}.tool_calls[{}]", param_, i)));
    }
  }

  // {"id":…,"function":{"name":…,"arguments":…}}, or name and arguments beside the id.
  static ToolCall read_call(const JsonNode& call, const std::string& param) {
    if (!call.is(JsonKind::kObject)) refuse(param, "is {}; a call is an object", shown(call));
    const JsonNode* function = find_set(call, "function");
    if (function != nullptr && !function->is(JsonKind::kObject)) {
      refuse(param + ".function", "is {}; it must be an object with a name", shown(*function));
    }
    const bool flat = function == nullptr && find_set(call, "name") != nullptr;
    const JsonNode& holder = function == nullptr ? call : *function;
    const std::string place = flat ? param : param + ".function";
    ToolCall read;
    read.id = find_string(call, "id", param).value_or("");
    read.name = find_string(holder, "name", place).value_or("");
    if (read.name.empty()) refuse(place + ".name", "is missing; name the function that was called");
    read.arguments = read_arguments(find_set(holder, "arguments"), place + ".arguments");
    return read;
  }

  static CallArguments read_arguments(const JsonNode* arguments, const std::string& param) {
    if (arguments == nullptr) return {};
    if (arguments->is(JsonKind::kString)) return arguments_from_text(arguments->text);
    if (arguments->is(JsonKind::kObject)) return arguments_from_object(*arguments);
    refuse(param, "is {}; it must be a string of JSON or an object", shown(*arguments));
  }

  void read_tool_result() {
    message_.tool = find_string(node_, "tool", param_);
    message_.call_id = find_string(node_, "tool_call_id", param_);
    if (!message_.call_id) message_.call_id = find_string(node_, "id", param_);
    if (!message_.call_id && !rules_.lenient) {
      refuse(at("tool_call_id"), "is missing; give the id of the call that this result answers");
    }
  }

  void read_tools(ToolReader& tools) {
    const JsonNode* added = find_set(node_, "tools");
    if (added == nullptr) return;
    if (message_.role == Role::kSystem) {
      message_.tools_json = tools.read(*added, at("tools"));
      if (!rules_.lenient && !message_.tools_json.empty() && has_content()) {
        refuse(at("content"), "stands beside tools; put it into a system message of its own");
      }
      return;
    }
    const bool empty = added->is(JsonKind::kArray) && added->items.empty();
    if (!rules_.lenient && !empty) {
      refuse(at("tools"), "stands in a message of role {}; only system messages add tools",
             role_name(message_.role));
    }
  }

  bool has_content() const {
    for (const ContentPart& part : message_.content) {
      if (part.image || !part.text.empty()) return true;
    }
    return false;
  }

  void read_partial(bool last) {
    message_.partial = find_boolean(node_, "partial", param_).value_or(false);
    if (!message_.partial) return;
    if (!last || message_.role != Role::kAssistant) {
      refuse(at("partial"), "is true; only the last message, of role assistant, can be continued");
    }
    if (!message_.calls.empty()) {
      refuse(at("tool_calls"), "stands in a partial message; only reasoning and content can be continued");
    }
  }

  const JsonNode& node_;
  const std::string& param_;
  const ConversationRules& rules_;
  Message message_;
};

}  // namespace

Message read_message(const JsonNode& node, const std::string& param, bool last,
                     const ConversationRules& rules, ToolReader& tools) {
  return MessageReader(node, param, rules).read(last, tools);
}

}  // namespace perigee
