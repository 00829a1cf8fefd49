// The words that all replies are made of: JSON's strings, numbers and constants, raw text, and characters in
// the form in which a string is written. Made once for a vocabulary, because what they know of its tokens is
// shared by all grammars.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "grammar/terminal.h"

namespace perigee {

// How the characters of a string stand in a reply.
enum class TextForm {
  kJson,  // between quotes, with escapes
  kRaw,   // as they are, as in an argument of type string (docs/chat-format.md, "Frames")
};

struct CodePointRange {
  char32_t first = 0, last = 0;
};

// One character out of `ranges`, escaped in its shortest form where it must be.
RegexRef written_character(std::span<const CodePointRange> ranges, TextForm form);
// Exactly this text, with the quotes of its form.
RegexRef written_text(std::string_view text, TextForm form);
// `inner` between the quotes of the form.
RegexRef in_quotes(RegexRef inner, TextForm form);
// A JSON string of any characters without escapes: a member's name that no other spelling stands for.
RegexRef plain_json_string();

class JsonWords {
 public:
  using Word = std::shared_ptr<const Terminal>;

  explicit JsonWords(std::shared_ptr<const TokenTrie> trie);

  const std::shared_ptr<const TokenTrie>& trie() const { return trie_; }

  // Any string; the second kind also counts its characters.
  const Word& string(TextForm form) const { return form == TextForm::kJson ? string_ : raw_; }
  const Word& counted_string(TextForm form) const {
    return form == TextForm::kJson ? counted_string_ : counted_raw_;
  }
  const Word& integer() const { return integer_; }
  const Word& number() const { return number_; }
  const Word& boolean() const { return boolean_; }
  const Word& null() const { return null_; }
  const Word& bytes() const { return bytes_; }          // whatever a channel may hold
  const Word& attribute() const { return attribute_; }  // the value of an attribute, not empty
  const Word& position() const { return position_; }    // 1, 2, …

 private:
  std::shared_ptr<const TokenTrie> trie_;
  Word string_, counted_string_, raw_, counted_raw_, integer_, number_, boolean_, null_, bytes_, attribute_,
      position_;
};

}  // namespace perigee
