// The longest token that a text begins with: a trie over the bytes of all ordinary tokens. Laid out level by
// level, so that the children of a node stand side by side and the whole is small: walking it is bound by
// cache misses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/token_bytes.h"

namespace perigee {

class PrefixTrie {
 public:
  // All 256 single bytes must be tokens. Needs up to 17 bytes of memory for each byte of the tokens.
  explicit PrefixTrie(const TokenBytes& tokens);

  // `text` is not empty. Never kNoToken.
  TokenId longest(std::string_view text) const;

  // The longest token that `token` begins with and that is shorter; kNoToken for a single byte.
  TokenId shorter(TokenId token) const { return shorter_[token]; }

 private:
  using NodeIndex = std::uint32_t;
  struct Node {
    NodeIndex first_child;  // its children end where those of the next node begin
    TokenId deepest;        // the longest token on the way here, the one that ends here included
  };
  class Builder;

  // The child of `parent` by `byte`; 0, the root, if there is none.
  NodeIndex child_of(NodeIndex parent, char byte) const;
  // Every single byte is a token, so the nodes behind the root are theirs, in order.
  static NodeIndex first_level(char byte) { return 1U + static_cast<unsigned char>(byte); }
  static std::size_t pair_index(char first, char second) {
    return static_cast<std::size_t>(static_cast<unsigned char>(first)) << 8 |
           static_cast<unsigned char>(second);
  }

  std::vector<Node> nodes_;       // and one behind the last
  std::vector<char> bytes_;       // of each node: the byte that leads to it from its parent
  std::vector<NodeIndex> pairs_;  // of two first bytes: where their walk ends
  std::vector<TokenId> shorter_;  // of each token
};

}  // namespace perigee
