// The frames of a reply as parts of a grammar (docs/chat-format.md, "Frames"): every part is told what
// follows it.
#pragma once

#include <string_view>

#include "grammar/grammar.h"
#include "text/chat_tokens.h"

namespace perigee {

class ReplyFrames {
 public:
  ReplyFrames(GrammarBuilder& builder, const ChatTokens& tokens) : builder_(builder), tokens_(tokens) {}
  // The same frames in another grammar.
  ReplyFrames(const ReplyFrames& like, GrammarBuilder& builder) : ReplyFrames(builder, like.tokens_) {}

  GrammarPlace open(std::string_view header, GrammarPlace next) const {
    return begin(header, end_of_header(next));
  }
  GrammarPlace close(std::string_view tag, GrammarPlace next) const {
    return builder_.special(tokens_.close, builder_.text(tag, end_of_header(next)));
  }
  // A header whose rest follows.
  GrammarPlace begin(std::string_view header, GrammarPlace rest) const {
    return builder_.special(tokens_.open, builder_.text(header, rest));
  }
  GrammarPlace end_of_header(GrammarPlace next) const { return builder_.special(tokens_.sep, next); }
  GrammarPlace end_of_message(GrammarPlace next) const {
    return builder_.special(tokens_.end_of_message, next);
  }

 private:
  GrammarBuilder& builder_;
  ChatTokens tokens_;
};

}  // namespace perigee
