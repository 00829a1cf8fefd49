#include "text/prefix_trie.h"

#include <algorithm>

namespace perigee {

// Makes the nodes level by level. The tokens below a node are neighbours in sorted order, and the one that
// ends at the node is the first of them.
class PrefixTrie::Builder {
 public:
  Builder(PrefixTrie& trie, const TokenBytes& tokens, std::vector<TokenId>& shorter)
      : trie_(trie), tokens_(tokens), shorter_(shorter), sorted_(sorted_by_bytes(tokens)) {}

  void build() {
    shorter_.resize(tokens_.size());
    add_node(0, 0, sorted_.size(), kNoToken);
    std::size_t level_end = 1, depth = 0;
    for (NodeIndex node = 0; node < trie_.nodes_.size(); ++node) {
      if (node == level_end) {
        level_end = trie_.nodes_.size();
        ++depth;
      }
      add_children(node, depth);
    }
    add_node(0, 0, 0, kNoToken);
    trie_.nodes_.back().first_child = static_cast<NodeIndex>(trie_.nodes_.size() - 1);
  }

 private:
  // A token in the order of its bytes. Comparing the first eight as a number settles almost everything.
  struct Sorted {
    std::uint64_t head;
    TokenId id;
    std::uint32_t size;
  };
  static constexpr std::size_t kHeadBytes = 8;

  static std::uint64_t head_of(std::string_view bytes) {
    std::uint64_t head = 0;
    for (std::size_t i = 0; i < kHeadBytes; ++i)
      head = head << 8 | (i < bytes.size() ? order_of(bytes[i]) : 0U);
    return head;
  }

  static std::vector<Sorted> sorted_by_bytes(const TokenBytes& tokens) {
    std::vector<Sorted> sorted(tokens.size());
    for (TokenId id = 0; id < tokens.size(); ++id)
      sorted[id] = {head_of(tokens[id]), id, static_cast<std::uint32_t>(tokens[id].size())};
    std::ranges::sort(sorted, [&](const Sorted& a, const Sorted& b) {
      if (a.head != b.head) return a.head < b.head;
      return std::ranges::lexicographical_compare(tokens[a.id], tokens[b.id], {}, order_of, order_of);
    });
    return sorted;
  }

  void add_node(std::uint8_t order, std::size_t begin, std::size_t end, TokenId deepest) {
    trie_.nodes_.push_back({0, 0, order, deepest});
    below_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  }

  void add_children(NodeIndex node, std::size_t depth) {
    auto [at, end] = below_[node];
    const auto first_child = static_cast<NodeIndex>(trie_.nodes_.size());
    const TokenId deepest = trie_.nodes_[node].deepest;
    std::uint64_t groups = 0;
    if (sorted_[at].size == depth) ++at;
    while (at < end) {
      const std::uint8_t order = order_at(at, depth);
      std::uint32_t after = at + 1;
      while (after < end && order_at(after, depth) == order) ++after;
      const bool ends_here = sorted_[at].size == depth + 1;
      if (ends_here) shorter_[sorted_[at].id] = deepest;
      add_node(order, at, after, ends_here ? sorted_[at].id : deepest);
      groups |= group_of(order);
      at = after;
    }
    trie_.nodes_[node].first_child = first_child;
    trie_.nodes_[node].groups = groups;
  }

  std::uint8_t order_at(std::size_t index, std::size_t depth) const {
    const Sorted& token = sorted_[index];
    if (depth < kHeadBytes) return static_cast<std::uint8_t>(token.head >> (8 * (kHeadBytes - 1 - depth)));
    return order_of(tokens_[token.id][depth]);
  }

  struct Range {
    std::uint32_t begin, end;
  };

  PrefixTrie& trie_;
  const TokenBytes& tokens_;
  std::vector<TokenId>& shorter_;
  const std::vector<Sorted> sorted_;
  std::vector<Range> below_;  // of each node: the tokens that begin with its bytes, in sorted_
};

[[gnu::always_inline]] inline PrefixTrie::NodeIndex PrefixTrie::child_of(NodeIndex parent, char byte) const {
  const std::uint8_t order = order_of(byte);
  const Node& node = nodes_[parent];
  const std::uint64_t group = group_of(order);
  if ((node.groups & group) == 0) return 0;
  NodeIndex at = node.first_child + static_cast<NodeIndex>(std::popcount(node.groups & (group - 1)));
  if (nodes_[at].order == order) [[likely]]
    return at;
  // Other siblings stand before it that share a group.
  const NodeIndex end = nodes_[parent + 1].first_child;
  while (++at < end)
    if (nodes_[at].order == order) return at;
  return 0;
}

PrefixTrie::PrefixTrie(const TokenBytes& tokens, std::vector<TokenId>& shorter) : pairs_(65536) {
  Builder(*this, tokens, shorter).build();
  for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
    const NodeIndex first = first_level(static_cast<char>(pair >> 8));
    const NodeIndex child = child_of(first, static_cast<char>(pair));
    pairs_[pair] = child != 0 ? child : first;
  }
}

[[gnu::always_inline]] inline TokenId PrefixTrie::walk(std::string_view text) const {
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

// Counting bits takes one instruction where there is one, and else a call for each byte.
[[gnu::target("popcnt")]] TokenId PrefixTrie::walk_by_popcnt(std::string_view text) const {
  return walk(text);
}

TokenId PrefixTrie::longest(std::string_view text) const {
  return has_popcnt_ ? walk_by_popcnt(text) : walk(text);
}

}  // namespace perigee
