#include "text/chat_tokens.h"

#include <algorithm>

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

std::vector<TokenId> ids_never_generated(const Vocabulary& vocabulary, std::size_t model_ids) {
  const ChatTokens tokens = find_chat_tokens(vocabulary);
  const auto structural = {tokens.open, tokens.close, tokens.sep, tokens.end_of_message, tokens.end_of_text};
  std::vector<TokenId> ids;
  for (auto id = static_cast<TokenId>(vocabulary.ordinary_count()); id < model_ids; ++id) {
    if (std::find(structural.begin(), structural.end(), id) == structural.end()) ids.push_back(id);
  }
  return ids;
}

std::size_t counted_prompt_tokens(std::span<const TokenId> prompt, const Vocabulary& vocabulary) {
  const ChatTokens tokens = find_chat_tokens(vocabulary);
  if (prompt.empty() || prompt.back() != tokens.sep) return prompt.size();
  const auto opened = std::find(prompt.rbegin(), prompt.rend(), tokens.open);
  return opened == prompt.rend() ? prompt.size() : static_cast<std::size_t>(prompt.rend() - opened) - 1;
}

}  // namespace perigee
