// Byte-pair merging of one piece: again and again the adjacent pair of lowest rank, leftmost first, until no
// pair is a token (docs/chat-format.md, "BPE"). Knows neither pieces nor special tokens.
//
// Two tokens of which neither can change any more meet in a merge only if they are the last two parts that
// the merged token itself falls into: what happens inside a token's bytes does not depend on what is around
// them, as long as no merge crosses its ends. So each token has at most one pair that makes it, found once by
// merging the token's own bytes, and a table of pairs of ids replaces every look-up of concatenated bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/token_bytes.h"

namespace perigee {

// Which token a pair of neighbours makes. Immutable after construction.
class MergeTable {
 public:
  // All 256 single bytes must be tokens.
  explicit MergeTable(const TokenBytes& tokens);

  TokenId byte_token(unsigned char byte) const { return byte_tokens_[byte]; }

  // The token that left and right make, whose rank is its id; kNoToken if none.
  TokenId merged(TokenId left, TokenId right) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = hash(left, right) & mask;; slot = (slot + 1) & mask) {
      const Slot& found = slots_[slot];
      if ((found.left == left && found.right == right) || found.token == kNoToken) return found.token;
    }
  }

 private:
  struct Slot {
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    TokenId token = kNoToken;
  };

  static std::uint64_t hash(TokenId left, TokenId right) {
    const std::uint64_t key = (static_cast<std::uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15;
    return key >> 32;
  }
  void add(TokenId left, TokenId right, TokenId token);

  std::array<TokenId, 256> byte_tokens_{};
  std::vector<Slot> slots_;  // a power of two, at most half of them taken
};

// The working memory of merging, kept between pieces. Not for several threads.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}

  // The tokens that `piece` merges into; valid until the next call.
  const std::vector<TokenId>& merge(std::string_view piece);

 private:
  void merge_short();
  void merge_long();
  void push_candidate(std::uint32_t left, std::uint32_t right);

  // A pair that could merge when it was pushed; stale if either part has changed since.
  struct Candidate {
    TokenId rank;
    std::uint32_t left;  // index of its left part
    TokenId left_id, right_id;
  };
  static bool later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }

  const MergeTable& table_;
  std::vector<TokenId> parts_;
  std::vector<TokenId> ranks_;  // merge_short: of parts i and i + 1
  std::vector<std::uint32_t> next_,
      previous_;                 // merge_long: neighbours; parts_[i] is kNoToken once merged away
  std::vector<Candidate> heap_;  // merge_long
};

}  // namespace perigee
