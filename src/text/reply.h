// What a reply is made of: the finished message, and the increments that a stream shows on the way.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace perigee {

// Where the text that comes next belongs, as far as a prompt can leave it open.
enum class Channel { kIdle, kThink, kResponse };

const char* channel_name(Channel channel);  // "idle", "think", "response"

enum class EndedBy { kStop, kMaxTokens };
enum class FinishReason { kStop, kLength, kToolCalls };

const char* finish_reason_name(FinishReason reason);  // "stop", "length", "tool_calls"

struct ReplyCall {
  std::string id;  // <name>_<k>, k counts over the whole conversation
  std::string name;
  std::string arguments;  // JSON text, except that a raw block goes through as the model wrote it
};

struct ReplyMessage {
  std::optional<std::string> reasoning;  // unset: none
  std::optional<std::string> content;    // unset: none, because there are tool calls
  std::vector<ReplyCall> calls;
  FinishReason finish = FinishReason::kStop;
  std::optional<std::string> stop_string;  // the one that ended the reply
  // What had to be repaired or dropped, for logs and counters: "implicit_close:think", "call_cut", …
  std::vector<std::string> notes;
};

// Valid UTF-8 by itself; never part of a character, never markup.
struct ReplyDelta {
  enum class Kind { kReasoning, kContent, kCallStart, kCallArguments };
  Kind kind = Kind::kContent;
  std::size_t call = 0;  // kCallStart, kCallArguments: index of the call in this reply
  std::string text;      // kCallStart: the whole name
  std::string id;        // kCallStart
};

}  // namespace perigee
