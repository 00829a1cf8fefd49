// A vocabulary in tiktoken's file format, and the special tokens that live behind its ordinary ones. Sizes
// and special tokens come from files or from the slot table that a caller gives; nothing here is particular
// to K3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_bytes.h"

namespace perigee {

struct SpecialToken {
  TokenId id = 0;
  std::string text;
};

// Special tokens occupy `slots` ids right behind the ordinary ones. A slot without a name of its own is
// called
// <|reserved_token_ID|>.
struct SpecialSlots {
  struct Named {
    std::uint32_t offset;  // id - number of ordinary tokens
    std::string text;
  };
  std::uint32_t slots = 0;
  std::vector<Named> named;
};

// The 256 slots and 16 names of the released K3 (docs/chat-format.md), for a vocabulary file that stands
// alone.
const SpecialSlots& k3_special_slots();

class Vocabulary {
 public:
  // `path` is a tiktoken file, or a folder that holds tiktoken.model. If tokenizer_config.json lies beside
  // the file, the special tokens are those of its added_tokens_decoder; otherwise k3_special_slots().
  // kNotFound, kIo, or kCorrupt naming file and line.
  static Vocabulary load(const std::filesystem::path& path);

  // `where` is the file's name in error sentences.
  static Vocabulary parse(std::string_view file_text, const SpecialSlots& specials, const std::string& where);

  std::size_t size() const;            // ordinary tokens and special slots
  std::size_t ordinary_count() const;  // ids 0 … ordinary_count() - 1 are ordinary, id = rank
  bool is_special(TokenId id) const { return id >= ordinary_count() && id < size(); }

  // Bytes of an ordinary token, text of a special one, empty for an id that does not exist. Valid as long as
  // the vocabulary.
  std::string_view bytes(TokenId id) const;

  // The ordinary token with exactly these bytes.
  std::optional<TokenId> ordinary(std::string_view bytes) const;

  // The special token with exactly this text.
  std::optional<TokenId> special(std::string_view text) const;

  // In id order.
  std::span<const SpecialToken> specials() const;

  std::size_t longest_token() const;  // bytes of the longest ordinary token

  const TokenBytes& ordinary_tokens() const { return ordinary_; }

 private:
  Vocabulary(TokenBytes ordinary, const SpecialSlots& slots, const std::string& where);
  void name_specials(const SpecialSlots& slots, const std::string& where);
  void sort_specials(const std::string& where);

  TokenBytes ordinary_;
  std::vector<SpecialToken> specials_;  // in id order
  std::vector<std::uint32_t> by_text_;  // indices into specials_, sorted by text
};

}  // namespace perigee
