// All ordinary tokens of a vocabulary as one trie, in the order of a walk that enters every node: whoever
// looks for the tokens that may come next goes through it once and jumps over what cannot.
#pragma once

#include <cstdint>
#include <vector>

#include "text/vocabulary.h"

namespace perigee {

class TokenTrie {
 public:
  struct Node {
    std::uint32_t end = 0;     // the node behind all that lie below this one
    TokenId token = kNoToken;  // that ends here
    std::uint16_t depth = 0;   // bytes from the root
    std::uint8_t byte = 0;     // that leads here
  };

  explicit TokenTrie(const Vocabulary& vocabulary);  // keeps a reference

  // Node 0 is the root. The children of a node begin behind it, each where the one before ends.
  const std::vector<Node>& nodes() const { return nodes_; }
  bool has_children(std::uint32_t node) const { return nodes_[node].end > node + 1; }
  std::size_t depth() const { return depth_; }  // of the deepest node
  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t ids() const { return vocabulary_.size(); }  // special ones included

 private:
  const Vocabulary& vocabulary_;
  std::vector<Node> nodes_;
  std::size_t depth_ = 0;
};

}  // namespace perigee
