// The longest token that a text begins with: a trie over the bytes of all ordinary tokens. Walking it is
// bound by cache misses, so a node says by itself which children it has, and where; they stand side by side.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/token_bytes.h"

namespace perigee {

class PrefixTrie {
 public:
  // More bytes of tokens than this do not fit.
  static constexpr std::size_t kMaxTotalBytes = 8 << 20;

  // All 256 single bytes must be tokens. Needs up to 24 bytes of memory for each byte of the tokens. Sets
  // `shorter` of each token to the longest token that it begins with and that is shorter; kNoToken for a
  // single byte.
  PrefixTrie(const TokenBytes& tokens, std::vector<TokenId>& shorter);

  // `text` is not empty. Never kNoToken.
  TokenId longest(std::string_view text) const;

 private:
  using NodeIndex = std::uint32_t;
  struct Node {
    std::uint64_t groups;            // a bit per group of bytes, set if some child's byte is in it
    std::uint32_t first_child : 24;  // the children end where those of the next node begin
    std::uint32_t order : 8;         // of the byte that leads here
    TokenId deepest;                 // the longest token on the way here, the one that ends here included
  };
  class Builder;

  // Siblings stand in the order of their bytes with the two highest bits turned to the bottom. So the bytes
  // with the same low six bits, which are a group, are neighbours; hardly ever are two of them siblings.
  static std::uint8_t order_of(char byte) { return std::rotl(static_cast<std::uint8_t>(byte), 2); }
  static std::uint64_t group_of(std::uint8_t order) { return std::uint64_t{1} << (order >> 2); }

  // The child of `parent` by `byte`; 0, the root, if there is none.
  NodeIndex child_of(NodeIndex parent, char byte) const;
  // Every single byte is a token, so the nodes behind the root are theirs.
  static NodeIndex first_level(char byte) { return 1U + order_of(byte); }
  static std::size_t pair_index(char first, char second) {
    return static_cast<std::size_t>(static_cast<unsigned char>(first)) << 8 |
           static_cast<unsigned char>(second);
  }

  TokenId walk(std::string_view text) const;
  TokenId walk_by_popcnt(std::string_view text) const;

  bool has_popcnt_ = __builtin_cpu_supports("popcnt") != 0;
  std::vector<Node> nodes_;       // level by level, and one behind the last
  std::vector<NodeIndex> pairs_;  // of two first bytes: where their walk ends
};

}  // namespace perigee
