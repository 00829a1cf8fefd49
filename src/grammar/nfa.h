// From a regex to the automaton that dfa.cpp makes deterministic (Thompson's construction). Internal to both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grammar/regex.h"

namespace perigee {

class Nfa {
 public:
  using State = std::uint32_t;
  static constexpr std::size_t kMostStates = 50'000;

  struct Edge {
    std::uint8_t low = 0, high = 0;
    State to = 0;
  };
  struct Node {
    std::vector<Edge> edges;
    std::vector<State> free;  // reached without a byte
    bool ends_character = false;
  };

  // kUnsupported if it grows beyond kMostStates; `what` names it in the sentence.
  Nfa(const Regex& regex, const std::string& what);

  const Node& operator[](State state) const { return nodes_[state]; }
  State begin() const { return begin_; }
  State end() const { return end_; }
  std::size_t size() const { return nodes_.size(); }

 private:
  State add();
  State build(const Regex& regex, State from);  // to the state behind it
  State build_alternatives(const Regex& regex, State from);
  State build_repeat(const Regex& regex, State from);

  const std::string& what_;
  std::vector<Node> nodes_;
  State begin_ = 0, end_ = 0;
};

}  // namespace perigee
