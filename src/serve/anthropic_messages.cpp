#include "serve/anthropic_messages.h"

#include <optional>
#include <unordered_set>

#include "serve/chat_nodes.h"
#include "text/json_fields.h"

namespace perigee {
namespace {

std::string required_text(const JsonNode& object, std::string_view key, const std::string& param,
                          const char* advice) {
  auto text = find_string(object, key, param);
  if (!text) refuse(member_param(param, key), "is missing; {}", advice);
  return std::move(*text);
}

// Parts of a message and where they came from.
struct Parts {
  std::vector<JsonNode> nodes;
  std::vector<std::pair<std::size_t, std::string>> images;  // index of the part, place of its source

  // An empty text says nothing; clients send some.
  void add_text(std::string text) {
    if (text.empty()) return;
    JsonNode part = object_node();
    add_member(part, "text", text_node(std::move(text)));
    nodes.push_back(std::move(part));
  }

  void add_image(std::string url, std::string place) {
    JsonNode part = object_node();
    add_member(part, "type", text_node("image_url"));
    add_member(part, "image_url", text_node(std::move(url)));
    images.emplace_back(nodes.size(), std::move(place));
    nodes.push_back(std::move(part));
  }
};

// As a data URL, or the URL itself.
std::string image_url(const JsonNode& block, const std::string& param) {
  const std::string place = param + ".source";
  const JsonNode* source = find_set(block, "source");
  if (source == nullptr || !source->is(JsonKind::kObject)) {
    refuse(place, "is {}; it must be an object with media_type and data",
           source == nullptr ? "missing" : shown(*source));
  }
  const std::string type = required_text(*source, "type", place, "send \"base64\"");
  if (type == "url") return required_text(*source, "url", place, "send the image itself in base64");
  if (type != "base64") {
    refuse(place + ".type", "is {}; send the image itself, as \"base64\"", shown(*find_set(*source, "type")));
  }
  const std::string media = required_text(*source, "media_type", place, "send one like \"image/png\"");
  return fmt::format("data:{};base64,{}", media,
                     required_text(*source, "data", place, "send the image in base64"));
}

std::string type_of_block(const JsonNode& block, const std::string& param) {
  if (!block.is(JsonKind::kObject)) refuse(param, "is {}; a block is an object with a type", shown(block));
  return required_text(block, "type", param, "every block has one");
}

[[noreturn]] void refuse_type(const JsonNode& block, const std::string& param, const char* known) {
  refuse(param + ".type", "is {}; it must be {}", shown(*find_set(block, "type")), known);
}

void add_text_block(const JsonNode& block, const std::string& param, Parts& parts) {
  parts.add_text(required_text(block, "text", param, "a text block has a text"));
}

// What may stand in a user's turn and in the result of a call. False: another type.
bool add_shown_block(const JsonNode& block, const std::string& type, const std::string& param, Parts& parts) {
  if (type == "text") {
    add_text_block(block, param, parts);
  } else if (type == "image") {
    parts.add_image(image_url(block, param), param + ".source");
  } else {
    return false;
  }
  return true;
}

// Calls `text` with a string, or `block` with every block of an array and its place.
template <typename Text, typename Block>
void read_content(const JsonNode& holder, const std::string& param, const Text& text, const Block& block) {
  const std::string place = param + ".content";
  const JsonNode* content = find_set(holder, "content");
  if (content == nullptr) refuse(place, "is missing; send a string or an array of blocks");
  if (content->is(JsonKind::kString)) return text(content->text);
  if (!content->is(JsonKind::kArray)) {
    refuse(place, "is {}; it must be a string or an array of blocks", shown(*content));
  }
  for (std::size_t i = 0; i < content->items.size(); ++i) {
    block(content->items[i], fmt::format("{}[{}]", place, i));
  }
}

Parts result_parts(const JsonNode& block, const std::string& param) {
  Parts parts;
  // The prompt has no other word for it.
  if (find_boolean(block, "is_error", param).value_or(false)) parts.add_text("Error: ");
  if (find_set(block, "content") == nullptr) return parts;
  read_content(
      block, param, [&](const std::string& text) { parts.add_text(text); },
      [&](const JsonNode& inner, const std::string& place) {
        if (!add_shown_block(inner, type_of_block(inner, place), place, parts))
          refuse_type(inner, place, "text or image inside a tool_result");
      });
  return parts;
}

// Messages of one role behind one another, which become one.
struct Turn {
  std::string role;
  std::string param;  // of its first message
  std::string reasoning;
  Parts parts;
  std::vector<JsonNode> calls;
  std::string calls_param;  // of the last
  bool partial = false;
};

class BlockReader {
 public:
  explicit BlockReader(RequestPlaces& places) : places_(places) {}

  void read_system(const JsonNode& system) {
    Parts parts;
    if (system.is(JsonKind::kString)) {
      parts.add_text(system.text);
    } else if (system.is(JsonKind::kArray)) {
      for (std::size_t i = 0; i < system.items.size(); ++i) {
        read_system_block(system.items[i], fmt::format("system[{}]", i), parts);
      }
    } else {
      refuse("system", "is {}; it must be a string or an array of text blocks", shown(system));
    }
    add_system("system", std::move(parts));
  }

  void read(const JsonNode& message, const std::string& param) {
    if (!message.is(JsonKind::kObject)) refuse(param, "is {}; a message is an object", shown(message));
    const std::string role = required_text(message, "role", param, "it must be user or assistant");
    if (role == "user") return read_user(message, param);
    if (role == "assistant") return read_assistant(message, param);
    // Not in Anthropic's documentation, but its own clients send it.
    if (role == "system") return read_inner_system(message, param);
    refuse(param + ".role", "is {}; it must be user or assistant", shown(*find_set(message, "role")));
  }

  JsonNode take() {
    if (turn_ && turn_->role == "assistant") {
      if (!turn_->calls.empty()) {
        refuse(turn_->calls_param, "is a tool_use in the last message; send the tool_result that answers it");
      }
      turn_->partial = true;
    }
    end_turn();
    return array_node(std::move(messages_));
  }

 private:
  static void read_system_block(const JsonNode& block, const std::string& param, Parts& parts) {
    if (type_of_block(block, param) != "text") refuse_type(block, param, "text");
    add_text_block(block, param, parts);
  }

  void add_system(const std::string& param, Parts parts) {
    if (parts.nodes.empty()) return;
    turn(param, "system").parts = std::move(parts);
    end_turn();
  }

  void read_inner_system(const JsonNode& message, const std::string& param) {
    Parts parts;
    read_content(
        message, param, [&](const std::string& text) { parts.add_text(text); },
        [&](const JsonNode& block, const std::string& place) { read_system_block(block, place, parts); });
    add_system(param, std::move(parts));
  }

  // Results first, wherever they stand: the prompt has them right behind the calls.
  void read_user(const JsonNode& message, const std::string& param) {
    Parts parts;
    bool results = false;
    read_content(
        message, param, [&](const std::string& text) { parts.add_text(text); },
        [&](const JsonNode& block, const std::string& place) {
          const std::string type = type_of_block(block, place);
          if (type == "tool_result") {
            read_result(block, place);
            results = true;
          } else if (!add_shown_block(block, type, place, parts)) {
            refuse_type(block, place, "text, image or tool_result in a message of the user");
          }
        });
    if (results && parts.nodes.empty()) return;
    Parts& all = turn(param, "user").parts;
    for (const auto& [index, place] : parts.images) all.images.emplace_back(all.nodes.size() + index, place);
    std::move(parts.nodes.begin(), parts.nodes.end(), std::back_inserter(all.nodes));
  }

  void read_result(const JsonNode& block, const std::string& param) {
    const std::string id =
        required_text(block, "tool_use_id", param, "give the id of the tool_use that it answers");
    if (turn_ && turn_->role == "assistant") end_turn();
    if (!called_.contains(id)) {
      refuse(param + ".tool_use_id", "is {}, which is no tool_use of the assistant's message before it",
             shown(*find_set(block, "tool_use_id")));
    }
    // Stands before what the user's turn has said so far.
    auto said = std::exchange(turn_, std::nullopt);
    Turn& result = turn(param, "tool");
    result.parts = result_parts(block, param);
    end_turn();
    add_member(messages_.back(), "tool_call_id", text_node(id));
    turn_ = std::move(said);
  }

  void read_assistant(const JsonNode& message, const std::string& param) {
    if (!turn_ || turn_->role != "assistant") {
      end_turn();
      called_.clear();
    }
    Turn& said = turn(param, "assistant");
    read_content(
        message, param, [&](const std::string& text) { said.parts.add_text(text); },
        [&](const JsonNode& block, const std::string& place) {
          const std::string type = type_of_block(block, place);
          if (type == "text") return add_text_block(block, place, said.parts);
          if (type == "tool_use") return read_call(block, place, said);
          if (type == "thinking") {
            said.reasoning += required_text(block, "thinking", place, "a thinking block has the thought");
          } else if (type != "redacted_thinking") {  // which only another server could read
            refuse_type(block, place, "text, thinking or tool_use in a message of the assistant");
          }
        });
  }

  void read_call(const JsonNode& block, const std::string& param, Turn& said) {
    const std::string id = required_text(block, "id", param, "its tool_result must be able to name it");
    const std::string name = required_text(block, "name", param, "name the tool that was called");
    if (name.empty()) refuse(param + ".name", "is empty; name the tool that was called");
    const JsonNode* input = find_set(block, "input");
    if (input != nullptr && !input->is(JsonKind::kObject)) {
      refuse(param + ".input", "is {}; it must be an object", shown(*input));
    }
    JsonNode function = object_node();
    add_member(function, "name", text_node(name));
    if (input != nullptr) add_member(function, "arguments", *input);
    JsonNode call = object_node();
    add_member(call, "id", text_node(id));
    add_member(call, "function", std::move(function));
    said.calls.push_back(std::move(call));
    said.calls_param = param;
    called_.insert(id);
  }

  // The turn of this role: the one that is open, or a new one.
  Turn& turn(const std::string& param, const char* role) {
    if (turn_ && turn_->role == role) return *turn_;
    end_turn();
    turn_.emplace();
    turn_->role = role;
    turn_->param = param;
    return *turn_;
  }

  void end_turn() {
    auto turn = std::exchange(turn_, std::nullopt);
    if (!turn) return;
    const std::string place = fmt::format("messages[{}]", messages_.size());
    places_.add(place, turn->param);
    for (const auto& [index, image] : turn->parts.images) {
      places_.add(fmt::format("{}.content[{}].image_url", place, index), image);
    }
    JsonNode message = object_node();
    add_member(message, "role", text_node(turn->role));
    add_member(message, "content", array_node(std::move(turn->parts.nodes)));
    if (turn->role == "assistant") {
      add_member(message, "reasoning_content", text_node(std::move(turn->reasoning)));
      add_member(message, "tool_calls", array_node(std::move(turn->calls)));
      add_member(message, "partial", boolean_node(turn->partial));
    }
    messages_.push_back(std::move(message));
  }

  RequestPlaces& places_;
  std::vector<JsonNode> messages_;
  std::optional<Turn> turn_;
  std::unordered_set<std::string> called_;  // ids of the assistant's last turn
};

}  // namespace

JsonNode messages_of_blocks(const JsonNode& request, RequestPlaces& places) {
  const JsonNode* messages = find_set(request, "messages");
  if (messages == nullptr) refuse("messages", "is missing; send an array of at least one message");
  if (!messages->is(JsonKind::kArray)) {
    refuse("messages", "is {}; it must be an array of messages", shown(*messages));
  }
  if (messages->items.empty()) refuse("messages", "is empty; send at least one message");
  BlockReader reader(places);
  if (const JsonNode* system = find_set(request, "system")) reader.read_system(*system);
  for (std::size_t i = 0; i < messages->items.size(); ++i) {
    reader.read(messages->items[i], fmt::format("messages[{}]", i));
  }
  return reader.take();
}

}  // namespace perigee
