// A conversation as the prompt builder wants it: checked, typed, free of API dialects. conversation_json.h
// reads one from a request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/arguments.h"

namespace perigee {

enum class Role { kSystem, kUser, kAssistant, kTool };
enum class Effort { kLow, kHigh, kMax };
enum class ToolChoice { kAuto, kNone, kRequired, kNamed };

const char* role_name(Role role);        // "system", …
const char* effort_name(Effort effort);  // "low", …

// Original size in pixels, before any resizing: it is what the prompt says.
struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  bool operator==(const ImageSize&) const = default;
};

// One part of a message's content: text, or an image. Each part is tokenized alone.
struct ContentPart {
  std::string text;
  std::optional<ImageSize> image;  // set: `text` is where the image comes from (URL as sent), never shown
};

struct ToolCall {
  std::string id;    // binds results to calls; not part of the prompt
  std::string name;  // not empty
  CallArguments arguments;
};

struct Message {
  Role role = Role::kUser;
  std::string name;  // optional attribute
  std::vector<ContentPart> content;
  std::string reasoning;               // assistant
  std::vector<ToolCall> calls;         // assistant
  std::optional<std::string> call_id;  // tool: which call this answers
  std::optional<std::string> tool;     // tool: the tool's name if the client gave one
  std::string tools_json;              // system: tools that it adds, sorted and compact; empty: none
  bool partial = false;                // last message, assistant: a prefix to be continued
};

struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string schema_json;  // kJsonSchema: sorted and compact
};

struct Conversation {
  std::vector<Message> messages;
  std::string tools_json;               // sorted and compact array; empty: none
  std::vector<std::string> tool_names;  // every declared tool, those of system messages included
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool;  // kNamed
  ResponseFormat response_format;
  bool thinking = true;
  std::optional<Effort> effort;  // unset: no thinking-effort message; ignored when thinking is off
};

}  // namespace perigee
