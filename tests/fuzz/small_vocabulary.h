// A vocabulary for fuzz targets: the 256 single bytes first, id = byte, then some words, then the special
// tokens of the chat format.
#pragma once

#include <span>
#include <string_view>

#include "support/tiktoken_text.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace perigee::fuzz {

inline Vocabulary small_vocabulary_with(std::span<const std::string_view> words) {
  const std::string file = test::tiktoken_text(test::with_single_bytes({words.begin(), words.end()}));
  const SpecialSlots specials = {.slots = 9,
                                 .named = {{0, "<|open|>"},
                                           {1, "<|close|>"},
                                           {2, "<|sep|>"},
                                           {3, "<|end_of_msg|>"},
                                           {4, "[EOS]"},
                                           {5, "<|media_begin|>"},
                                           {6, "<|media_content|>"},
                                           {7, "<|media_pad|>"},
                                           {8, "<|media_end|>"}}};
  return Vocabulary::parse(file, specials, "vocabulary of the fuzz target");
}

// One token a byte and K3's special tokens.
inline const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer(
      Vocabulary::parse(test::tiktoken_text(test::with_single_bytes({})), k3_special_slots(), "bytes"));
  return tokenizer;
}

}  // namespace perigee::fuzz
