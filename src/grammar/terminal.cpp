#include "grammar/terminal.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace perigee {
namespace {

// With fewer tokens than one for each of so many ids a list is smaller than a set of bits.
constexpr std::size_t kIdsPerListed = 32;

void set_bit(std::vector<std::uint64_t>& bits, TokenId id) {
  bits[id / 64] |= std::uint64_t{1} << (id % 64);
}

}  // namespace

Terminal::Terminal(Dfa dfa, const TokenTrie& trie, Border border, Lengths lengths)
    : dfa_(std::move(dfa)), trie_(trie), border_(border), lengths_(lengths) {}

std::shared_ptr<const TokenReach> Terminal::reach(Dfa::State state) const {
  const std::scoped_lock lock(mutex_);
  const auto place = known_.find(state);
  if (place != known_.end()) return place->second;
  if (known_.size() == kMostKnown) known_.clear();
  return known_[state] = std::make_shared<const TokenReach>(look(state));
}

TokenReach Terminal::look(Dfa::State state) const {
  struct Step {
    Dfa::State state;
    std::uint32_t characters;
  };
  TokenReach reach;
  std::vector<Step> path(trie_.depth() + 1);
  path[0] = {state, 0};
  const std::vector<TokenTrie::Node>& nodes = trie_.nodes();
  for (std::uint32_t i = 1; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Step& before = path[node.depth - 1u];
    const Dfa::State next = dfa_.next(before.state, node.byte);
    if (next == Dfa::kDead) {
      i = node.end;
      continue;
    }
    const std::uint32_t characters = before.characters + dfa_[next].ends_character;
    path[node.depth] = {next, characters};
    if (node.token != kNoToken) add_token(node.token, next, characters, reach);
    if (border_ == Border::kAnywhere && dfa_[next].accepting && trie_.has_children(i))
      reach.exits.push_back({i, characters});
    ++i;
  }
  finish(reach);
  return reach;
}

void Terminal::add_token(TokenId token, Dfa::State state, std::uint32_t characters, TokenReach& reach) const {
  if (dfa_[state].edges.empty()) {
    reach.last.push_back({token, characters});
    return;
  }
  reach.few.push_back(token);
  if (lengths_ == Lengths::kCounted) reach.inside.push_back({token, characters + dfa_[state].least_more});
}

void Terminal::finish(TokenReach& reach) const {
  std::ranges::stable_sort(reach.inside, std::greater<>(), &TokenReach::Counted::characters);
  if (reach.few.size() * kIdsPerListed >= trie_.ids()) {
    reach.many.resize((trie_.ids() + 63) / 64);
    for (const TokenId token : reach.few) set_bit(reach.many, token);
    reach.few.clear();
  }
  reach.few.shrink_to_fit();
}

}  // namespace perigee
