#include "text/prefix_trie.h"

#include <bit>

namespace perigee {
namespace {

constexpr std::size_t kFirstEdges = 1024;

}  // namespace

PrefixTrie::PrefixTrie(const TokenBytes& tokens) : pairs_(65536, kNoNode) {
  edges_.resize(std::bit_ceil(kFirstEdges + 4 * tokens.size()));
  shift_ = 64 - std::countr_zero(edges_.size());
  parents_.push_back(kNoNode);
  deepest_.push_back(kNoToken);
  std::vector<Node> ends(tokens.size());
  for (TokenId id = 0; id < tokens.size(); ++id) {
    ends[id] = add_path(tokens[id]);
    deepest_[ends[id]] = id;
    if (tokens[id].size() == 1) byte_tokens_[static_cast<unsigned char>(tokens[id].front())] = id;
  }
  // A node is behind its parent, whose entry is therefore final.
  for (Node node = 1; node < parents_.size(); ++node)
    if (deepest_[node] == kNoToken) deepest_[node] = deepest_[parents_[node]];
  shorter_.resize(tokens.size());
  for (TokenId id = 0; id < tokens.size(); ++id) shorter_[id] = deepest_[parents_[ends[id]]];
}

PrefixTrie::Node PrefixTrie::add_path(std::string_view bytes) {
  Node node = kNoNode;
  std::size_t at = 0;
  if (bytes.size() >= 2 && pairs_[pair_index(bytes[0], bytes[1])] != kNoNode) {
    node = pairs_[pair_index(bytes[0], bytes[1])];
    at = 2;
  }
  for (; at < bytes.size(); ++at) {
    Node child = child_of(node, bytes[at]);
    if (child == kNoNode) {
      if (2 * (parents_.size() + 1) > edges_.size()) grow();
      child = static_cast<Node>(parents_.size());
      edges_[slot_of(node, bytes[at])] = {node << 8 | static_cast<unsigned char>(bytes[at]), child};
      parents_.push_back(node);
      deepest_.push_back(kNoToken);
    }
    node = child;
    if (at == 1) pairs_[pair_index(bytes[0], bytes[1])] = node;
  }
  return node;
}

void PrefixTrie::grow() {
  std::vector<Edge> old(2 * edges_.size());
  old.swap(edges_);
  --shift_;
  for (const Edge& edge : old)
    if (edge.child != kNoNode) edges_[slot_of(edge.key >> 8, static_cast<char>(edge.key & 0xFF))] = edge;
}

TokenId PrefixTrie::longest(std::string_view text) const {
  if (text.size() == 1) return byte_tokens_[static_cast<unsigned char>(text[0])];
  Node node = pairs_[pair_index(text[0], text[1])];
  if (node == kNoNode) return byte_tokens_[static_cast<unsigned char>(text[0])];
  for (std::size_t at = 2; at < text.size(); ++at) {
    const Node child = child_of(node, text[at]);
    if (child == kNoNode) break;
    node = child;
  }
  return deepest_[node];
}

}  // namespace perigee
