#include "grammar/dfa.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "grammar/nfa.h"

namespace perigee {
namespace {

// Of automaton states looked at while one automaton is made: a tenth of a second and some ten megabytes.
constexpr std::size_t kMostWork = 4'000'000;

[[noreturn]] void fail_too_large(const std::string& what) {
  fail(ErrorCode::kUnsupported, "{} is too large to be followed; make its limits smaller", what);
}

// The edges of a state whose target by each byte `target` tells.
template <typename Target>
std::vector<Dfa::Edge> edges_by_byte(const Target& target) {
  std::vector<Dfa::Edge> edges;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const Dfa::State to = target(static_cast<std::uint8_t>(byte));
    if (to == Dfa::kDead) continue;
    const auto value = static_cast<std::uint8_t>(byte);
    if (!edges.empty() && edges.back().to == to && edges.back().high + 1u == byte) {
      edges.back().high = value;
    } else {
      edges.push_back({value, value, to});
    }
  }
  return edges;
}

// Numbers for the states of a product, in the order in which they are met.
template <typename Key>
class Numbering {
 public:
  explicit Numbering(const std::string& what) : what_(what) {}

  Dfa::State of(const Key& key) {
    const auto [place, is_new] = numbers_.try_emplace(key, static_cast<Dfa::State>(keys_.size()));
    if (!is_new) return place->second;
    if (keys_.size() == Dfa::kMostStates) fail_too_large(what_);
    keys_.push_back(&place->first);
    return place->second;
  }
  std::size_t size() const { return keys_.size(); }
  const Key& operator[](std::size_t number) const { return *keys_[number]; }

 private:
  const std::string& what_;
  std::map<Key, Dfa::State> numbers_;
  std::vector<const Key*> keys_;  // of numbers_, whose nodes stay where they are
};

}  // namespace

// The subset construction.
class Dfa::Determiniser {
 public:
  Determiniser(const Nfa& nfa, const std::string& what)
      : nfa_(nfa), what_(what), numbers_(what), seen_(nfa.size(), 0) {}

  std::vector<Node> run() {
    numbers_.of(closed({nfa_.begin()}));
    std::vector<Node> nodes;
    while (nodes.size() < numbers_.size()) nodes.push_back(node_of(numbers_[nodes.size()]));
    return nodes;
  }

 private:
  using Set = std::vector<Nfa::State>;

  // `states` with all that they reach without a byte, ascending.
  Set closed(Set states) {
    ++round_;
    Set all;
    while (!states.empty()) {
      const Nfa::State state = states.back();
      states.pop_back();
      if (seen_[state] == round_) continue;
      seen_[state] = round_;
      all.push_back(state);
      states.insert(states.end(), nfa_[state].free.begin(), nfa_[state].free.end());
    }
    work_ += all.size();
    if (work_ > kMostWork) fail_too_large(what_);
    std::ranges::sort(all);
    return all;
  }

  Node node_of(const Set& states) {
    Node node;
    std::set<unsigned> cuts;  // where the set of targets may change
    for (const Nfa::State state : states) {
      node.accepting |= state == nfa_.end();
      node.ends_character |= nfa_[state].ends_character;
      for (const Nfa::Edge& edge : nfa_[state].edges) {
        cuts.insert(edge.low);
        cuts.insert(edge.high + 1u);
      }
    }
    for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut)
      add_edge(states, *cut, *std::next(cut) - 1, node);
    return node;
  }

  void add_edge(const Set& states, unsigned low, unsigned high, Node& node) {
    Set targets;
    for (const Nfa::State state : states) {
      for (const Nfa::Edge& edge : nfa_[state].edges) {
        if (edge.low <= low && low <= edge.high) targets.push_back(edge.to);
      }
    }
    work_ += states.size();
    if (targets.empty()) return;
    const State to = numbers_.of(closed(std::move(targets)));
    if (!node.edges.empty() && node.edges.back().to == to && node.edges.back().high + 1u == low) {
      node.edges.back().high = static_cast<std::uint8_t>(high);
    } else {
      node.edges.push_back({static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), to});
    }
  }

  const Nfa& nfa_;
  const std::string& what_;
  Numbering<Set> numbers_;
  std::vector<std::uint32_t> seen_;  // in which round a state was last reached
  std::uint32_t round_ = 0;
  std::size_t work_ = 0;
};

Dfa::Dfa(const Regex& regex, const std::string& what) {
  const Nfa nfa(regex, what);
  nodes_ = Determiniser(nfa, what).run();
  finish(what);
}

Dfa::Dfa(const Dfa& from, std::uint32_t least, std::uint32_t most, const std::string& what) {
  const std::uint32_t enough = most == kUnlimited ? least : most;  // counting goes no further
  Numbering<std::pair<State, std::uint32_t>> numbers(what);
  numbers.of({kStart, 0});
  while (nodes_.size() < numbers.size()) {
    const auto [state, count] = numbers[nodes_.size()];
    Node node;
    node.accepting = from[state].accepting && count >= least;
    node.edges = edges_by_byte([&, state = state, count = count](std::uint8_t byte) {
      const State to = from.next(state, byte);
      if (to == kDead) return kDead;
      const std::uint32_t counted = count + from[to].ends_character;
      if (counted > enough && most != kUnlimited) return kDead;
      return numbers.of({to, std::min(counted, enough)});
    });
    nodes_.push_back(std::move(node));
  }
  finish(what);
}

Dfa Dfa::difference(const Dfa& from, const Dfa& without, const std::string& what) {
  Dfa made;
  Numbering<std::pair<State, State>> numbers(what);
  numbers.of({kStart, kStart});
  while (made.nodes_.size() < numbers.size()) {
    const auto [state, other] = numbers[made.nodes_.size()];
    Node node;
    node.accepting = from[state].accepting && (other == kDead || !without[other].accepting);
    node.ends_character = from[state].ends_character;
    node.edges = edges_by_byte([&, state = state, other = other](std::uint8_t byte) {
      const State to = from.next(state, byte);
      if (to == kDead) return kDead;
      return numbers.of({to, other == kDead ? kDead : without.next(other, byte)});
    });
    made.nodes_.push_back(std::move(node));
  }
  made.finish(what);
  return made;
}

// Finds how far each state is from an end, and drops the edges into states that have none.
void Dfa::finish(const std::string& what) {
  std::vector<std::vector<State>> from(nodes_.size());
  std::vector<std::uint32_t> distance(nodes_.size(), kUnlimited);
  std::deque<State> pending;
  for (State state = 0; state < nodes_.size(); ++state) {
    for (const Edge& edge : nodes_[state].edges) from[edge.to].push_back(state);
    if (!nodes_[state].accepting) continue;
    distance[state] = 0;
    pending.push_back(state);
  }
  while (!pending.empty()) {
    const State state = pending.front();
    pending.pop_front();
    const bool counts = nodes_[state].ends_character;
    for (const State before : from[state]) {
      const std::uint32_t way = distance[state] + counts;
      if (way >= distance[before]) continue;
      distance[before] = way;
      if (counts)
        pending.push_back(before);
      else
        pending.push_front(before);
    }
  }
  if (distance[kStart] == kUnlimited)
    fail(ErrorCode::kUnsupported, "{} cannot be met by any text; loosen it", what);
  for (State state = 0; state < nodes_.size(); ++state) {
    nodes_[state].least_more = distance[state];
    std::erase_if(nodes_[state].edges, [&](const Edge& edge) { return distance[edge.to] == kUnlimited; });
  }
}

bool Dfa::overlap(const Dfa& a, const Dfa& b) {
  std::set<std::pair<State, State>> seen = {{kStart, kStart}};
  std::vector<std::pair<State, State>> pending = {{kStart, kStart}};
  while (!pending.empty()) {
    const auto [mine, theirs] = pending.back();
    pending.pop_back();
    if (a[mine].accepting && b[theirs].accepting) return true;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const State to = a.next(mine, static_cast<std::uint8_t>(byte));
      const State other = b.next(theirs, static_cast<std::uint8_t>(byte));
      if (to == kDead || other == kDead) continue;
      if (seen.insert({to, other}).second) pending.emplace_back(to, other);
    }
  }
  return false;
}

bool Dfa::accepts(std::string_view text) const {
  State state = kStart;
  for (const char c : text) {
    state = next(state, static_cast<std::uint8_t>(c));
    if (state == kDead) return false;
  }
  return nodes_[state].accepting;
}

}  // namespace perigee
