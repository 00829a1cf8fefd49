// The special tokens that the chat format is made of, found in a vocabulary by their text.
#pragma once

#include "text/vocabulary.h"

namespace perigee {

struct ChatTokens {
  TokenId open;            // <|open|>
  TokenId close;           // <|close|>
  TokenId sep;             // <|sep|>
  TokenId end_of_message;  // <|end_of_msg|>: ends a reply
  TokenId end_of_text;     // [EOS]: ends a reply as well
  TokenId media_begin;     // <|media_begin|>
  TokenId media_content;   // <|media_content|>
  TokenId media_pad;       // <|media_pad|>: stands for the vectors of an image
  TokenId media_end;       // <|media_end|>

  bool ends_reply(TokenId id) const { return id == end_of_message || id == end_of_text; }
};

// kUnsupported naming the first token that `vocabulary` lacks.
ChatTokens find_chat_tokens(const Vocabulary& vocabulary);

}  // namespace perigee
