// The longest token that a text begins with: a trie over the bytes of all ordinary tokens, its edges in one
// flat table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/token_bytes.h"

namespace perigee {

class PrefixTrie {
 public:
  // Above this many bytes of tokens edges would not fit their 32-bit keys.
  static constexpr std::size_t kMaxBytes = 1 << 24;

  // All 256 single bytes must be tokens, and all tokens at most kMaxBytes together.
  explicit PrefixTrie(const TokenBytes& tokens);

  // `text` is not empty. Never kNoToken.
  TokenId longest(std::string_view text) const;

  // The longest token that `token` begins with and that is shorter; kNoToken for a single byte.
  TokenId shorter(TokenId token) const { return shorter_[token]; }

 private:
  using Node = std::uint32_t;
  static constexpr Node kNoNode = 0;  // the root: no edge leads to it

  struct Edge {
    std::uint32_t key = 0;  // parent << 8 | byte
    Node child = kNoNode;
  };

  std::size_t slot_of(Node parent, char byte) const {
    const std::uint32_t key = parent << 8 | static_cast<unsigned char>(byte);
    std::size_t slot = key * 0x9E3779B97F4A7C15 >> shift_;
    while (edges_[slot].child != kNoNode && edges_[slot].key != key) slot = (slot + 1) & (edges_.size() - 1);
    return slot;
  }
  Node child_of(Node parent, char byte) const { return edges_[slot_of(parent, byte)].child; }
  static std::size_t pair_index(char first, char second) {
    return static_cast<std::size_t>(static_cast<unsigned char>(first)) << 8 |
           static_cast<unsigned char>(second);
  }

  Node add_path(std::string_view bytes);
  void grow();

  std::array<TokenId, 256> byte_tokens_{};
  std::vector<Node> pairs_;  // of the first two bytes: most walks begin here instead of at the root
  std::vector<Edge> edges_;  // a power of two, at most half of them taken
  int shift_ = 0;
  std::vector<Node> parents_;
  std::vector<TokenId> deepest_;  // of each node: the longest token on the way to it, its own included
  std::vector<TokenId> shorter_;  // of each token
};

}  // namespace perigee
