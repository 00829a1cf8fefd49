#include "grammar/nfa.h"

#include "base/error.h"

namespace perigee {

Nfa::Nfa(const Regex& regex, const std::string& what) : what_(what) {
  begin_ = add();
  end_ = build(regex, begin_);
}

Nfa::State Nfa::add() {
  if (nodes_.size() == kMostStates)
    fail(ErrorCode::kUnsupported, "{} is too large to be followed; make its limits smaller", what_);
  nodes_.emplace_back();
  return static_cast<State>(nodes_.size() - 1);
}

Nfa::State Nfa::build(const Regex& regex, State from) {
  switch (regex.kind) {
    case Regex::Kind::kByte: {
      const State to = add();
      nodes_[from].edges.push_back({regex.low, regex.high, to});
      return to;
    }
    case Regex::Kind::kSequence:
      for (const RegexRef& part : regex.parts) from = build(*part, from);
      return from;
    case Regex::Kind::kAlternatives:
      return build_alternatives(regex, from);
    case Regex::Kind::kRepeat:
      return build_repeat(regex, from);
    case Regex::Kind::kCharacter: {
      const State inner = build(*regex.parts[0], from);
      const State end = add();
      nodes_[end].ends_character = true;
      nodes_[inner].free.push_back(end);
      return end;
    }
  }
  fail(ErrorCode::kInternal, "{} holds an unknown kind of regex", what_);
}

Nfa::State Nfa::build_alternatives(const Regex& regex, State from) {
  const State end = add();
  for (const RegexRef& part : regex.parts) {
    const State begin = add();
    nodes_[from].free.push_back(begin);
    const State last = build(*part, begin);
    nodes_[last].free.push_back(end);
  }
  return end;
}

Nfa::State Nfa::build_repeat(const Regex& regex, State from) {
  const Regex& part = *regex.parts[0];
  // Every turn has a state of its own: a loop inside the part cannot leave by an earlier exit, and turns of
  // nothing count too.
  const auto turn = [&](State before) {
    const State begin = add();
    nodes_[before].free.push_back(begin);
    return build(part, begin);
  };
  for (std::uint32_t i = 0; i < regex.least; ++i) from = turn(from);
  if (regex.most == kUnlimited) {
    const State loop = add();
    nodes_[from].free.push_back(loop);
    const State last = build(part, loop);
    nodes_[last].free.push_back(loop);
    const State end = add();
    nodes_[loop].free.push_back(end);
    return end;
  }
  std::vector<State> exits = {from};
  for (std::uint32_t i = regex.least; i < regex.most; ++i) {
    from = turn(from);
    exits.push_back(from);
  }
  const State end = add();
  for (const State exit : exits) nodes_[exit].free.push_back(end);
  return end;
}

}  // namespace perigee
