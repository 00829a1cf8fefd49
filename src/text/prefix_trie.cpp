#include "text/prefix_trie.h"

#include <algorithm>
#include <cstring>

namespace perigee {
namespace {

// A token in the order of its bytes. Comparing the first eight as a number settles almost everything.
struct Sorted {
  std::uint64_t head;
  TokenId id;
};

constexpr std::size_t kHeadBytes = 8;

std::uint64_t head_of(std::string_view bytes) {
  std::uint64_t head = 0;
  for (std::size_t i = 0; i < kHeadBytes; ++i)
    head = head << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
  return head;
}

std::vector<Sorted> sorted_by_bytes(const TokenBytes& tokens) {
  std::vector<Sorted> sorted(tokens.size());
  for (TokenId id = 0; id < tokens.size(); ++id) sorted[id] = {head_of(tokens[id]), id};
  std::ranges::sort(sorted, [&](const Sorted& a, const Sorted& b) {
    return a.head != b.head ? a.head < b.head : tokens[a.id] < tokens[b.id];
  });
  return sorted;
}

}  // namespace

// Makes the nodes level by level. The tokens below a node are neighbours in sorted order, and the one that
// ends at the node is the first of them.
class PrefixTrie::Builder {
 public:
  Builder(PrefixTrie& trie, const TokenBytes& tokens)
      : trie_(trie), tokens_(tokens), sorted_(sorted_by_bytes(tokens)) {}

  void build() {
    trie_.shorter_.resize(tokens_.size());
    add_node('\0', 0, sorted_.size(), kNoToken);
    std::size_t level_end = 1, depth = 0;
    for (NodeIndex node = 0; node < trie_.nodes_.size(); ++node) {
      if (node == level_end) {
        level_end = trie_.nodes_.size();
        ++depth;
      }
      add_children(node, depth);
    }
    trie_.nodes_.push_back({static_cast<NodeIndex>(trie_.nodes_.size()), kNoToken});
  }

 private:
  void add_node(char byte, std::size_t begin, std::size_t end, TokenId deepest) {
    trie_.nodes_.push_back({0, deepest});
    trie_.bytes_.push_back(byte);
    below_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  }

  void add_children(NodeIndex node, std::size_t depth) {
    auto [at, end] = below_[node];
    trie_.nodes_[node].first_child = static_cast<NodeIndex>(trie_.nodes_.size());
    const TokenId deepest = trie_.nodes_[node].deepest;
    if (tokens_[sorted_[at].id].size() == depth) ++at;
    while (at < end) {
      const char byte = byte_at(at, depth);
      std::uint32_t after = at + 1;
      while (after < end && byte_at(after, depth) == byte) ++after;
      const TokenId first = sorted_[at].id;
      const bool ends_here = tokens_[first].size() == depth + 1;
      if (ends_here) trie_.shorter_[first] = deepest;
      add_node(byte, at, after, ends_here ? first : deepest);
      at = after;
    }
  }

  char byte_at(std::size_t index, std::size_t depth) const {
    if (depth < kHeadBytes) return static_cast<char>(sorted_[index].head >> (8 * (kHeadBytes - 1 - depth)));
    return tokens_[sorted_[index].id][depth];
  }

  struct Range {
    std::uint32_t begin, end;
  };

  PrefixTrie& trie_;
  const TokenBytes& tokens_;
  const std::vector<Sorted> sorted_;
  std::vector<Range> below_;  // of each node: the tokens that begin with its bytes, in sorted_
};

PrefixTrie::PrefixTrie(const TokenBytes& tokens) : pairs_(65536) {
  Builder(*this, tokens).build();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const NodeIndex first = first_level(static_cast<char>(byte));
    std::fill_n(pairs_.begin() + static_cast<std::ptrdiff_t>(byte << 8), 256, first);
    for (NodeIndex child = nodes_[first].first_child; child < nodes_[first + 1].first_child; ++child)
      pairs_[pair_index(static_cast<char>(byte), bytes_[child])] = child;
  }
}

PrefixTrie::NodeIndex PrefixTrie::child_of(NodeIndex parent, char byte) const {
  constexpr NodeIndex kFew = 4;
  NodeIndex at = nodes_[parent].first_child;
  const NodeIndex end = nodes_[parent + 1].first_child;
  if (end - at > kFew) {
    const void* found = std::memchr(bytes_.data() + at, byte, end - at);
    return found == nullptr ? 0 : static_cast<NodeIndex>(static_cast<const char*>(found) - bytes_.data());
  }
  for (; at < end; ++at)
    if (bytes_[at] == byte) return at;
  return 0;
}

TokenId PrefixTrie::longest(std::string_view text) const {
  if (text.size() == 1) return nodes_[first_level(text[0])].deepest;
  NodeIndex node = pairs_[pair_index(text[0], text[1])];
  if (node <= first_level('\xFF')) return nodes_[node].deepest;
  for (std::size_t at = 2; at < text.size(); ++at) {
    const NodeIndex child = child_of(node, text[at]);
    if (child == 0) break;
    node = child;
  }
  return nodes_[node].deepest;
}

}  // namespace perigee
