// Texts to measure tokenizers with: always the same bytes, made from word lists, so that nothing has to be
// downloaded and nobody's text is copied. They have the habits of real text that decide a tokenizer's speed:
// word lengths and frequencies, rare names, punctuation, indentation, numbers. They mean nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "text/conversation.h"

namespace perigee {

struct TextInput {
  std::string name;  // one word
  std::string text;  // valid UTF-8, at least as long as asked for and little more
};

std::string english_text(std::size_t bytes);

// english, code, chinese, json, base64, long-line (the last two hold no line feed).
std::vector<TextInput> make_text_inputs(std::size_t bytes);

// One letter, spaces, combining marks, the first half of a special token: the same again and again.
std::vector<TextInput> make_worst_cases(std::size_t bytes);

// A long agent session: a system message, `tools` tools, then turns of a user, a reasoning assistant with
// calls, and tool results, `messages` in all.
Conversation make_long_conversation(std::size_t messages, std::size_t tools);

// One assistant message: `parts` paragraphs of reasoning, as many of content, as many tool calls.
Message make_long_reply(std::size_t parts);

}  // namespace perigee
