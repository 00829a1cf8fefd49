#include "serve/responses_items.h"

#include <optional>
#include <unordered_map>

#include "serve/chat_nodes.h"
#include "serve/request_fields.h"
#include "serve/responses_json.h"

namespace perigee {
namespace {

// The places of parts stay as they are: each becomes one part.
JsonNode part_of(const JsonNode& part, const std::string& param) {
  if (!part.is(JsonKind::kObject)) refuse(param, "is {}; a part is an object with a type", shown(part));
  const std::string type = required_string(part, "type", param, "a part is input_text or input_image");
  JsonNode read = object_node();
  if (type == "input_text" || type == "output_text" || type == "text") {
    add_member(read, "text", text_node(required_string(part, "text", param, "a text part has a text")));
  } else if (type == "refusal") {
    add_member(read, "text",
               text_node(required_string(part, "refusal", param, "it is the text of the part")));
  } else if (type == "input_image") {
    required_string(part, "image_url", param, "give the image as a data URL");
    add_member(read, "type", text_node("image_url"));
    add_member(read, "image_url", *find_set(part, "image_url"));
  } else {
    refuse(param + ".type", "is {}; a part is input_text, output_text, refusal or input_image",
           shown(*find_set(part, "type")));
  }
  return read;
}

JsonNode content_of(const JsonNode& item, std::string_view key, const std::string& param) {
  const std::string place = member_param(param, key);
  const JsonNode* content = find_set(item, key);
  if (content == nullptr) refuse(place, "is missing; send a string or an array of parts");
  if (content->is(JsonKind::kString)) return *content;
  if (!content->is(JsonKind::kArray)) {
    refuse(place, "is {}; it must be a string or an array of parts", shown(*content));
  }
  std::vector<JsonNode> parts;
  parts.reserve(content->items.size());
  for (std::size_t i = 0; i < content->items.size(); ++i) {
    parts.push_back(part_of(content->items[i], fmt::format("{}[{}]", place, i)));
  }
  return array_node(std::move(parts));
}

// Of a reasoning item: its own text, else what this server put into encrypted_content. Reasoning of other
// servers that only they can read, and summaries, are nothing that the model has thought.
std::string reasoning_of(const JsonNode& item, const std::string& param) {
  std::string text;
  if (const JsonNode* content = find_set(item, "content")) {
    const std::string place = param + ".content";
    if (!content->is(JsonKind::kArray)) {
      refuse(place, "is {}; it must be an array of reasoning_text parts", shown(*content));
    }
    for (std::size_t i = 0; i < content->items.size(); ++i) {
      const std::string part = fmt::format("{}[{}]", place, i);
      text += required_string(content->items[i], "text", part, "a reasoning_text part has a text");
    }
  }
  const std::string sealed = find_string(item, "encrypted_content", param).value_or("");
  return text.empty() ? opened_reasoning(sealed) : text;
}

class InputReader {
 public:
  explicit InputReader(RequestPlaces& places) : places_(places) {}

  void read_instructions(const JsonNode& text) { add_message("instructions", "system", text); }
  void read_text(const JsonNode& text) { add_message("input", "user", text); }

  void read_item(const JsonNode& item, const std::string& param) {
    if (!item.is(JsonKind::kObject)) refuse(param, "is {}; an item is an object", shown(item));
    const bool untyped = find_set(item, "type") == nullptr && find_set(item, "role") != nullptr;
    const std::string type =
        untyped
            ? "message"
            : required_string(item, "type", param, "an item is a message, a call, its output or reasoning");
    if (type == "message") return read_message(item, param);
    if (type == "function_call") return read_call(item, param);
    if (type == "function_call_output") return read_output(item, param);
    if (type == "reasoning") return read_reasoning(item, param);
    if (type == "item_reference") {
      refuse(param + ".type", "is \"item_reference\", but this server stores no items; send the item itself");
    }
    refuse(param + ".type", "is {}; it must be message, function_call, function_call_output or reasoning",
           shown(*find_set(item, "type")));
  }

  JsonNode take() {
    end_turn();
    return array_node(std::move(messages_));
  }

 private:
  // What the model said, as far as it has been read.
  struct Turn {
    std::string param;  // of its first item
    std::string reasoning;
    std::optional<JsonNode> content;
    std::string content_param;
    std::vector<JsonNode> calls;
    std::vector<std::string> call_params;
    bool begun() const { return content.has_value() || !calls.empty(); }
    bool empty() const { return !begun() && reasoning.empty(); }
  };

  std::string next_place() const { return fmt::format("messages[{}]", messages_.size()); }

  void add_message(const std::string& param, const std::string& role, JsonNode content) {
    end_turn();
    places_.add(next_place(), param);
    JsonNode message = object_node();
    add_member(message, "role", text_node(role));
    add_member(message, "content", std::move(content));
    messages_.push_back(std::move(message));
  }

  Turn& turn(const std::string& param) {
    if (!turn_) turn_ = Turn();
    if (turn_->param.empty()) turn_->param = param;
    return *turn_;
  }

  void end_turn() {
    const auto turn = std::exchange(turn_, std::nullopt);
    if (!turn || turn->empty()) return;
    const std::string place = next_place();
    places_.add(place, turn->param);
    JsonNode message = object_node();
    add_member(message, "role", text_node("assistant"));
    add_member(message, "reasoning_content", text_node(turn->reasoning));
    if (turn->content) {
      places_.add(place + ".content", turn->content_param + ".content");
      add_member(message, "content", *turn->content);
    }
    for (std::size_t i = 0; i < turn->call_params.size(); ++i) {
      places_.add(fmt::format("{}.tool_calls[{}]", place, i), turn->call_params[i]);
      places_.add(fmt::format("{}.tool_calls[{}].function", place, i), turn->call_params[i]);
    }
    add_member(message, "tool_calls", array_node(turn->calls));
    messages_.push_back(std::move(message));
  }

  void read_message(const JsonNode& item, const std::string& param) {
    const std::string role =
        required_string(item, "role", param, "it must be user, assistant, system or developer");
    JsonNode content = content_of(item, "content", param);
    if (role == "user" || role == "system" || role == "developer") {
      return add_message(param, role, std::move(content));
    }
    if (role != "assistant") {
      refuse(param + ".role", "is {}; it must be user, assistant, system or developer",
             shown(*find_set(item, "role")));
    }
    if (turn_ && turn_->begun()) end_turn();
    turn(param).content = std::move(content);
    turn_->content_param = param;
  }

  void read_reasoning(const JsonNode& item, const std::string& param) {
    std::string text = reasoning_of(item, param);
    if (turn_ && turn_->begun()) end_turn();
    turn(param).reasoning += text;
  }

  void read_call(const JsonNode& item, const std::string& param) {
    const std::string id = required_string(item, "call_id", param, "its output must be able to name it");
    const std::string name = required_string(item, "name", param, "name the function that was called");
    if (name.empty()) refuse(param + ".name", "is empty; name the function that was called");
    JsonNode function = object_node();
    add_member(function, "name", text_node(name));
    add_member(function, "arguments",
               text_node(required_string(item, "arguments", param, "send JSON text, \"{}\" for none")));
    JsonNode call = object_node();
    add_member(call, "id", text_node(id));
    add_member(call, "function", std::move(function));
    turn(param).calls.push_back(std::move(call));
    turn_->call_params.push_back(param);
    called_[id] = name;
  }

  void read_output(const JsonNode& item, const std::string& param) {
    const std::string id = required_string(item, "call_id", param, "give that of the call that it answers");
    const auto called = called_.find(id);
    if (called == called_.end()) {
      refuse(param + ".call_id", "answers no function_call before it; send that item as well");
    }
    JsonNode content = content_of(item, "output", param);
    end_turn();
    places_.add(next_place() + ".content", param + ".output");
    add_message(param, "tool", std::move(content));
    add_member(messages_.back(), "tool_call_id", text_node(id));
    add_member(messages_.back(), "tool", text_node(called->second));
  }

  RequestPlaces& places_;
  std::vector<JsonNode> messages_;
  std::optional<Turn> turn_;
  std::unordered_map<std::string, std::string> called_;  // call_id → name
};

}  // namespace

JsonNode messages_of_input(const JsonNode& input, const JsonNode* instructions, RequestPlaces& places) {
  InputReader reader(places);
  if (instructions != nullptr) reader.read_instructions(*instructions);
  if (input.is(JsonKind::kString)) {
    reader.read_text(input);
    return reader.take();
  }
  if (!input.is(JsonKind::kArray)) {
    refuse("input", "is {}; it must be a string or an array of items", shown(input));
  }
  if (input.items.empty()) refuse("input", "is empty; send at least one item");
  for (std::size_t i = 0; i < input.items.size(); ++i) {
    reader.read_item(input.items[i], fmt::format("input[{}]", i));
  }
  return reader.take();
}

}  // namespace perigee
