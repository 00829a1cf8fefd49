// The special tokens that the chat format is made of, found in a vocabulary by their text.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

// Ids of a model's vocabulary of `model_ids` ids that are no part of any reply: special ones other than
// <|open|>, <|close|>, <|sep|> and the two ends, and those that `vocabulary` does not have
// (docs/chat-format.md).
std::vector<TokenId> ids_never_generated(const Vocabulary& vocabulary, std::size_t model_ids);

// The ids of a prompt as usage counts them: without those that open the reply's channel.
std::size_t counted_prompt_tokens(std::span<const TokenId> prompt, const Vocabulary& vocabulary);

}  // namespace perigee
