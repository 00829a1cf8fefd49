#include "text/prompt.h"

#include <algorithm>

#include "base/error.h"
#include "text/frames.h"
#include "text/system_messages.h"
#include "text/tool_results.h"

namespace perigee {
namespace {

// One conversation into segments. Member functions follow docs/chat-format.md, "Messages" and "Tool calls".
class PromptBuilder {
 public:
  PromptBuilder(const Conversation& conversation, std::vector<Segment>& segments)
      : conversation_(conversation), frames_(segments) {}

  void build(GenerationPrompt generation) {
    if (!conversation_.tools_json.empty()) synthesised("tool-declare", tools_body(conversation_.tools_json));
    if (conversation_.thinking && conversation_.effort) {
      synthesised("thinking-effort", effort_body(*conversation_.effort));
    }
    std::span<const Message> messages = conversation_.messages;
    const Message* prefix = nullptr;  // what the reply continues
    if (!messages.empty() && messages.back().partial) {
      prefix = &messages.back();
      messages = messages.first(messages.size() - 1);
    }
    for (const PlacedMessage& placed : place_messages(messages)) message(placed);
    synthesised("tool-choice", tool_choice_body(conversation_.tool_choice));
    synthesised("response-format", response_format_body(conversation_.response_format));
    if (prefix != nullptr) {
      opened_reply(*prefix);
    } else if (generation == GenerationPrompt::kOpen) {
      Message nothing;
      nothing.role = Role::kAssistant;
      opened_reply(nothing);
    }
  }

 private:
  void synthesised(std::string_view type, const std::string& body) {
    if (body.empty()) return;
    frames_.start("message");
    frames_.attribute("role", role_name(Role::kSystem));
    frames_.attribute("type", type);
    frames_.body();
    frames_.text(body);
    frames_.end_message();
  }

  void message(const PlacedMessage& placed) {
    switch (placed.message->role) {
      case Role::kSystem:
        return system(*placed.message);
      case Role::kUser:
        return plain(*placed.message);
      case Role::kAssistant:
        return assistant(*placed.message);
      case Role::kTool:
        return tool_result(placed);
    }
  }

  // Tools stand alone; the content of such a message follows as a message of its own.
  void system(const Message& message) {
    if (message.tools_json.empty()) return plain(message);
    synthesised("tool-declare", added_tools_body(message.tools_json));
    if (has_content(message)) plain(message);
  }

  void plain(const Message& message) {
    start_message(message);
    content(message);
    frames_.end_message();
  }

  void assistant(const Message& message) {
    start_message(message);
    if (conversation_.thinking) {
      frames_.open("think");
      frames_.text(message.reasoning);
      frames_.close("think");
    }
    frames_.open("response");
    content(message);
    frames_.close("response");
    if (!message.calls.empty()) tool_calls(message.calls);
    frames_.end_message();
  }

  void tool_result(const PlacedMessage& placed) {
    if (placed.tool.empty()) {
      fail(ErrorCode::kUsage,
           "tool result {} since the last assistant message answers no call of it; give it the tool_call_id "
           "of "
           "a call or a name",
           placed.index);
    }
    frames_.start("message");
    frames_.attribute("role", role_name(Role::kTool));
    frames_.attribute("tool", placed.tool);
    frames_.attribute("index", std::to_string(placed.index));
    frames_.body();
    content(*placed.message);
    frames_.end_message();
  }

  // The assistant's message up to where it goes on: in its first channel, or behind what `prefix` holds.
  void opened_reply(const Message& prefix) {
    start_message(prefix);
    const bool in_response = has_content(prefix) || !conversation_.thinking;
    if (conversation_.thinking) {
      frames_.open("think");
      frames_.text(prefix.reasoning);
      if (in_response) frames_.close("think");
    }
    if (!in_response) return;
    frames_.open("response");
    content(prefix);
  }

  void start_message(const Message& message) {
    frames_.start("message");
    frames_.attribute("role", role_name(message.role));
    if (!message.name.empty()) frames_.attribute("name", message.name);
    frames_.body();
  }

  static bool has_content(const Message& message) {
    return std::any_of(message.content.begin(), message.content.end(),
                       [](const ContentPart& part) { return part.image || !part.text.empty(); });
  }

  void content(const Message& message) {
    for (const ContentPart& part : message.content) {
      if (part.image) {
        frames_.image(*part.image);
      } else {
        frames_.text(part.text);
      }
    }
  }

  void tool_calls(std::span<const ToolCall> calls) {
    frames_.open("tools");
    for (std::size_t i = 0; i < calls.size(); ++i) {
      frames_.start("call");
      frames_.attribute("tool", calls[i].name);
      frames_.attribute("index", std::to_string(i + 1));
      frames_.body();
      arguments(calls[i].arguments);
      frames_.close("call");
    }
    frames_.close("tools");
  }

  void arguments(const CallArguments& arguments) {
    if (arguments.raw) {
      frames_.start("json");
      frames_.attribute("type", json_kind_name(JsonKind::kObject));
      frames_.body();
      frames_.text(*arguments.raw);
      frames_.close("json");
      return;
    }
    for (const Argument& argument : arguments.members) {
      frames_.start("argument");
      frames_.attribute("key", argument.key);
      frames_.attribute("type", json_kind_name(argument.type));
      frames_.body();
      frames_.text(argument.value);
      frames_.close("argument");
    }
  }

  const Conversation& conversation_;
  FrameWriter frames_;
};

std::string_view marker_text(Marker marker) {
  switch (marker) {
    case Marker::kOpen:
      return "<|open|>";
    case Marker::kClose:
      return "<|close|>";
    case Marker::kSep:
      return "<|sep|>";
    case Marker::kEndOfMessage:
      return "<|end_of_msg|>";
  }
  return {};
}

}  // namespace

std::vector<Segment> build_prompt(const Conversation& conversation, GenerationPrompt generation) {
  std::vector<Segment> segments;
  PromptBuilder(conversation, segments).build(generation);
  return segments;
}

std::string image_words(ImageSize size) {
  return fmt::format("image {}x{}", size.width, size.height);
}

std::string segment_text(const Segment& segment) {
  if (const auto* marker = std::get_if<Marker>(&segment)) return std::string(marker_text(*marker));
  if (const auto* size = std::get_if<ImageSize>(&segment)) {
    return "<|media_begin|>" + image_words(*size) + "<|media_content|><|media_pad|><|media_end|>";
  }
  return std::get<std::string>(segment);
}

std::string prompt_text(std::span<const Segment> segments) {
  std::string text;
  for (const Segment& segment : segments) text += segment_text(segment);
  return text;
}

}  // namespace perigee
