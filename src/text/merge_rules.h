// Byte-pair merging without merging. In a vocabulary where every token longer than a byte is made by one pair
// of tokens of lower rank, as training leaves it, a sequence of tokens is what merging ends with if and only
// if that holds for each two neighbours (Berglund and van der Merwe, "Formalizing BPE Tokenization"). So a
// piece can be cut from left to right: take the longest token that may follow the last one, and step back
// where none does. Linear in practice, whatever the piece; bpe.h is the reference that it is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/pair_table.h"
#include "text/prefix_trie.h"
#include "text/token_bytes.h"

namespace perigee {

class MergeRules {
 public:
  // Nothing if some token has no such pair, or the tokens are too long together: then only bpe.h will do.
  // `tokens` must outlive the rules.
  static std::optional<MergeRules> find(const TokenBytes& tokens);

  // Whether merging the bytes of both gives them back: no merge crosses from one into the other.
  bool stay_apart(TokenId left, TokenId right) const;

  const TokenBytes& tokens() const { return *tokens_; }
  const PrefixTrie& trie() const { return trie_; }

 private:
  struct Pair {
    TokenId left, right;  // of a single byte: the byte itself, twice
  };

  explicit MergeRules(const TokenBytes& tokens)
      : tokens_(&tokens), trie_(tokens), pairs_(tokens.size()), made_of_(tokens.size()) {}
  bool find_pair(TokenId token);
  bool comes_before(TokenId part, TokenId token) const {
    return part < token || (*tokens_)[part].size() == 1;
  }

  const TokenBytes* tokens_;
  PrefixTrie trie_;
  PairTable pairs_;
  std::vector<Pair> made_of_;  // of each token
};

// Cuts pieces by the rules. Its working memory is kept between pieces; not for several threads.
class PieceCutter {
 public:
  explicit PieceCutter(const MergeRules& rules) : rules_(rules) {}

  // Appends the tokens that `piece`, which is not empty, merges into.
  void append(std::string_view piece, std::vector<TokenId>& ids);

 private:
  bool is_open(std::size_t at) const { return (open_[at / 64] >> (at % 64) & 1) != 0; }

  const MergeRules& rules_;
  std::vector<std::uint64_t> open_;  // a bit per position: not yet known to be a dead end
};

}  // namespace perigee
