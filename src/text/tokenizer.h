// Text to token ids and back, exactly as the tokenizer that K3 was released with: pieces, byte-pair merges by
// lowest rank, and the cutting of very long runs, which is part of the format because it changes ids
// (docs/chat-format.md). Two ways in: encode_plain never yields a special id, whatever the text says;
// encode_markup recognises special tokens and is for text of our own. Prompts are built in prompt.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace perigee {

// Immutable; one object serves any number of threads.
class Tokenizer {
 public:
  explicit Tokenizer(Vocabulary vocabulary);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  const Vocabulary& vocabulary() const;

  // Append the ids of `text` to `ids`. Bytes that are not UTF-8 are encoded as they are.
  void append_plain(std::string_view text, std::vector<TokenId>& ids) const;
  void append_markup(std::string_view text, std::vector<TokenId>& ids) const;

  std::vector<TokenId> encode_plain(std::string_view text) const;
  std::vector<TokenId> encode_markup(std::string_view text) const;

  // The same ids as encode_plain, found by `threads` threads.
  std::vector<TokenId> encode_plain_parallel(std::string_view text, unsigned threads) const;

  // The bytes of the tokens, joined; special tokens give their text, unknown ids nothing.
  std::string decode_bytes(std::span<const TokenId> ids) const;

  // decode_bytes with each maximal invalid part replaced by U+FFFD.
  std::string decode(std::span<const TokenId> ids) const;

 private:
  struct Merges;  // what merging and the search for special tokens look up
  class Encoder;
  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const Merges> merges_;
};

}  // namespace perigee
