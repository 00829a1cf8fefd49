// Automata for the words of a grammar: one state at a time, byte after byte. Every state leads to an end, so
// whoever follows one never gets stuck.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/regex.h"

namespace perigee {

class Dfa {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0xFFFFFFFF;
  static constexpr State kStart = 0;

  struct Edge {
    std::uint8_t low = 0, high = 0;
    State to = kDead;
  };
  struct Node {
    std::vector<Edge> edges;  // ascending, no two overlap
    bool accepting = false;
    bool ends_character = false;   // a character has just been completed
    std::uint32_t least_more = 0;  // characters that must be completed before the next accepting state
  };

  // kUnsupported if it has more states than kMostStates or no words. `what` names it in the sentence.
  Dfa(const Regex& regex, const std::string& what);
  // Words of `from` with least … most characters.
  Dfa(const Dfa& from, std::uint32_t least, std::uint32_t most, const std::string& what);
  // Words of `from` that are not words of `without`.
  static Dfa difference(const Dfa& from, const Dfa& without, const std::string& what);

  static constexpr std::size_t kMostStates = 10'000;

  State next(State state, std::uint8_t byte) const {
    for (const Edge& edge : nodes_[state].edges) {
      if (byte <= edge.high) return byte >= edge.low ? edge.to : kDead;
    }
    return kDead;
  }
  const Node& operator[](State state) const { return nodes_[state]; }
  std::size_t size() const { return nodes_.size(); }

  // Is there a word that belongs to both?
  static bool overlap(const Dfa& a, const Dfa& b);
  bool accepts(std::string_view text) const;

 private:
  class Determiniser;
  Dfa() = default;
  void finish(const std::string& what);

  std::vector<Node> nodes_;
};

}  // namespace perigee
