// Byte-pair merging of one piece as it is defined: again and again the adjacent pair of lowest rank, leftmost
// first, until no pair is a token (docs/chat-format.md, "Merges"). Right for any vocabulary, in n log n; the
// definition that merge_rules.h, which is faster and needs a well-formed vocabulary, is compared with.
//
// What happens inside the bytes of a token does not depend on what is around them, as long as no merge
// crosses its ends. So only one pair of tokens can make a given token, found once by merging the token's own
// bytes, and a table of pairs of ids replaces every look-up of concatenated bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/pair_table.h"
#include "text/token_bytes.h"

namespace perigee {

// Which token a pair of neighbours makes. Immutable after construction.
class MergeTable {
 public:
  // All 256 single bytes must be tokens.
  explicit MergeTable(const TokenBytes& tokens);

  TokenId byte_token(char byte) const { return byte_tokens_[static_cast<unsigned char>(byte)]; }
  TokenId merged(TokenId left, TokenId right) const { return pairs_.find(left, right); }

 private:
  std::array<TokenId, 256> byte_tokens_{};
  PairTable pairs_;
};

// Merges pieces. Its working memory is kept between pieces; not for several threads.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}

  // The tokens that `piece` merges into; valid until the next call.
  const std::vector<TokenId>& merge(std::string_view piece);

 private:
  // A pair that could merge when it was pushed; stale if either part has changed since.
  struct Candidate {
    TokenId rank;
    std::uint32_t left;  // index of its left part
    TokenId left_id, right_id;
  };

  static bool later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
  void push_candidate(std::uint32_t left, std::uint32_t right);
  void apply(const Candidate& candidate);

  const MergeTable& table_;
  std::vector<TokenId> parts_;  // one per byte; kNoToken once merged into the part before
  std::vector<std::uint32_t> next_, previous_;
  std::vector<Candidate> heap_;
};

}  // namespace perigee
