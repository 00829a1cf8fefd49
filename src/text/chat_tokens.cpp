#include "text/chat_tokens.h"

#include "base/error.h"

namespace perigee {
namespace {

TokenId find(const Vocabulary& vocabulary, std::string_view text) {
  if (const auto id = vocabulary.special(text)) return *id;
  fail(ErrorCode::kUnsupported,
       "the vocabulary has no special token {}, which K3's chat format needs; give the tokenizer_config.json "
       "that "
       "belongs to it",
       text);
}

}  // namespace

ChatTokens find_chat_tokens(const Vocabulary& vocabulary) {
  return {
      .open = find(vocabulary, "<|open|>"),
      .close = find(vocabulary, "<|close|>"),
      .sep = find(vocabulary, "<|sep|>"),
      .end_of_message = find(vocabulary, "<|end_of_msg|>"),
      .end_of_text = find(vocabulary, "[EOS]"),
      .media_begin = find(vocabulary, "<|media_begin|>"),
      .media_content = find(vocabulary, "<|media_content|>"),
      .media_pad = find(vocabulary, "<|media_pad|>"),
      .media_end = find(vocabulary, "<|media_end|>"),
  };
}

}  // namespace perigee
