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
#include <utility>
#include <vector>

#include "text/pair_table.h"
#include "text/prefix_trie.h"
#include "text/token_bytes.h"

namespace perigee {

class MergeRules {
 public:
  // Nothing if some token has no such pair, or the tokens are too long together: then only bpe.h will do.
  static std::optional<MergeRules> find(const TokenBytes& tokens);

  // Whether merging the bytes of both gives them back: no merge crosses from one into the other.
  bool stay_apart(TokenId left, TokenId right) const;

  // The longest token that `text`, which is not empty, begins with.
  TokenId longest(std::string_view text) const { return trie_.longest(text); }

  // The longest token that `token` begins with and that is shorter; kNoToken for a single byte.
  TokenId shorter(TokenId token) const { return known_[token].shorter; }

  // In bytes.
  std::size_t length(TokenId token) const { return known_[token].length; }

 private:
  // What is asked about a token, in one cache line.
  struct Known {
    TokenId left, right;  // the pair that makes it; of a single byte the byte itself, twice
    TokenId shorter;
    std::uint32_t length;
  };

  MergeRules(PrefixTrie trie, std::size_t tokens) : known_(tokens), trie_(std::move(trie)), pairs_(tokens) {}
  bool find_pair(const TokenBytes& tokens, TokenId token);
  bool comes_before(TokenId part, TokenId token) const { return part < token || length(part) == 1; }

  std::vector<Known> known_;  // of each token
  PrefixTrie trie_;
  PairTable pairs_;
};

// Cuts pieces by the rules. Its working memory is kept between pieces; not for several threads.
class PieceCutter {
 public:
  explicit PieceCutter(const MergeRules& rules) : rules_(rules) {}

  // From now on remembers which tokens stay apart, which costs as much as encoding a few thousand bytes.
  void remember() { memo_.assign(std::size_t{1} << kMemoBits, ~std::uint64_t{0}); }

  // Appends the tokens that `piece`, which is not empty, merges into.
  void append(std::string_view piece, std::vector<TokenId>& ids);

 private:
  static constexpr int kMemoBits = 15;

  bool is_open(std::size_t at) const { return (open_[at / 64] >> (at % 64) & 1) != 0; }
  bool stay_apart(TokenId left, TokenId right);

  const MergeRules& rules_;
  std::vector<std::uint64_t> memo_;  // empty, or in each slot two neighbours and, lowest, the answer
  std::vector<std::uint64_t> open_;  // a bit per position: not yet known to be a dead end
};

}  // namespace perigee
