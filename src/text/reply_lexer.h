// Ids of a reply to tags and literal text. A tag is made by token ids alone; text that spells one through
// ordinary tokens is text (docs/chat-format.md, "Replies"). What a tag means is the state machine's business.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/chat_tokens.h"
#include "text/reply_tag.h"
#include "text/vocabulary.h"

namespace perigee {

// What a lexer has found.
class ReplyEvents {
 public:
  virtual ~ReplyEvents() = default;
  virtual void text(std::string_view bytes) = 0;  // any bytes: a token may hold half a character
  virtual void tag(const ReplyTag& tag) = 0;
  virtual void end() = 0;                        // an end token
  virtual void note(std::string_view what) = 0;  // something had to be repaired or dropped
};

class ReplyLexer {
 public:
  // Longer headers are dropped: a tool name of 256 characters takes about 180 ids.
  static constexpr std::size_t kMaxHeaderIds = 1024;

  explicit ReplyLexer(const Vocabulary& vocabulary);  // keeps a reference

  void push(TokenId id, ReplyEvents& events);

  // No more ids. Inside a header: `cut` drops it, otherwise the end counts like an end token.
  void finish(bool cut, ReplyEvents& events);

 private:
  bool begins_header(TokenId id) const { return id == tokens_.open || id == tokens_.close; }
  void begin_header(TokenId id);
  void push_header(TokenId id, ReplyEvents& events);
  void push_literal(TokenId id, ReplyEvents& events);
  std::string_view literal(TokenId id, ReplyEvents& events) const;
  void complete_header(ReplyEvents& events);
  void interrupt_header(ReplyEvents& events);
  ReplyTag take_tag(ReplyEvents& events);

  const Vocabulary& vocabulary_;
  ChatTokens tokens_;
  bool in_header_ = false;
  bool opens_ = false;
  std::size_t header_ids_ = 0;
  std::string header_;
};

}  // namespace perigee
