// From the ids of a reply to the message: reasoning, content, tool calls. Structure is decided by token id,
// never by what text spells, and everything that models were seen to do wrong is survived
// (docs/chat-format.md, "Replies"). Feeding ids one by one, all at once or in any groups gives the same
// streams.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/chat_tokens.h"
#include "text/reply.h"
#include "text/tokenizer.h"

namespace perigee {

// The channel that a prompt leaves open.
Channel open_channel(std::span<const TokenId> prompt, const Tokenizer& tokenizer);

struct ReplyOptions {
  Channel start = Channel::kThink;
  bool tools_allowed = true;      // false: no tools declared or tool_choice none; calls are dropped
  std::size_t calls_so_far = 0;   // calls that the conversation already holds
  std::vector<std::string> stop;  // strings that end the reply when they appear in its content
};

class ReplyParser {
 public:
  ReplyParser(const Tokenizer& tokenizer, ReplyOptions options);  // keeps a reference to the tokenizer
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  // Appends what `ids` add to the streams. Ids after the end are ignored.
  void push(std::span<const TokenId> ids, std::vector<ReplyDelta>& deltas);

  // The reply has ended: an end token, or a stop string. Generation can stop.
  bool done() const;

  // Call once, last. `deltas` receives what was held back and is now known to be text.
  ReplyMessage finish(EndedBy ended_by, std::vector<ReplyDelta>& deltas);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace perigee
