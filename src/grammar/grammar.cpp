#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace perigee {

using Kind = GrammarNode::Kind;

GrammarBuilder::GrammarBuilder(std::shared_ptr<const TokenTrie> trie, std::string what)
    : grammar_(std::make_shared<Grammar>()), what_(std::move(what)) {
  grammar_->trie_ = std::move(trie);
  add({});  // kEnd
}

void GrammarBuilder::fail_too_large() const {
  fail(ErrorCode::kUnsupported, "{} is too large to be followed; make its limits smaller", what_);
}

GrammarPlace GrammarBuilder::add(GrammarNode node) {
  std::vector<GrammarNode>& nodes = grammar_->nodes_;
  if (nodes.size() == kMostNodes) fail_too_large();
  nodes.push_back(std::move(node));
  return static_cast<GrammarPlace>(nodes.size() - 1);
}

GrammarPlace GrammarBuilder::word(std::shared_ptr<const Terminal> terminal, GrammarPlace next,
                                  std::uint32_t least, std::uint32_t most) {
  auto& terminals = grammar_->terminals_;
  const auto place = std::ranges::find(terminals, terminal);
  const auto index = static_cast<std::uint32_t>(place - terminals.begin());
  if (place == terminals.end()) terminals.push_back(std::move(terminal));
  return add({.kind = Kind::kWord,
              .next = next,
              .terminal = index,
              .least = least,
              .most = most,
              .alternatives = {}});
}

GrammarPlace GrammarBuilder::text(std::string_view text, GrammarPlace next) {
  auto place = texts_.find(text);
  if (place == texts_.end()) {
    auto terminal = std::make_shared<const Terminal>(
        Dfa(*regex_text(text), what_), trie(), Terminal::Border::kAnywhere, Terminal::Lengths::kIgnored);
    place = texts_.emplace(text, std::move(terminal)).first;
  }
  return word(place->second, next);
}

GrammarPlace GrammarBuilder::special(TokenId id, GrammarPlace next) {
  return add({.kind = Kind::kSpecial, .next = next, .special = id, .alternatives = {}});
}

GrammarPlace GrammarBuilder::call(RuleIndex rule, GrammarPlace next) {
  return add({.kind = Kind::kCall, .next = next, .rule = rule, .alternatives = {}});
}

GrammarPlace GrammarBuilder::either(std::vector<GrammarPlace> alternatives) {
  if (alternatives.size() == 1) return alternatives[0];
  return add({.kind = Kind::kEither, .alternatives = std::move(alternatives)});
}

GrammarPlace GrammarBuilder::loop() {
  return add({.kind = Kind::kEither, .alternatives = {}});
}

void GrammarBuilder::set_loop(GrammarPlace loop, std::vector<GrammarPlace> alternatives) {
  grammar_->nodes_[loop].alternatives = std::move(alternatives);
}

RuleIndex GrammarBuilder::rule() {
  if (grammar_->rules_.size() == kMostRules) fail_too_large();
  grammar_->rules_.push_back(kEnd);
  return static_cast<RuleIndex>(grammar_->rules_.size() - 1);
}

void GrammarBuilder::set_rule(RuleIndex rule, GrammarPlace entry) {
  grammar_->rules_[rule] = entry;
}

std::shared_ptr<const Grammar> GrammarBuilder::finish(RuleIndex root) {
  grammar_->root_ = root;
  drop_endless(root);
  check_beginnings();
  return std::move(grammar_);
}

bool GrammarBuilder::can_end(const std::vector<bool>& places, const std::vector<bool>& rules,
                             const GrammarNode& node) const {
  switch (node.kind) {
    case Kind::kReturn:
      return true;
    case Kind::kWord:
    case Kind::kSpecial:
      return places[node.next];
    case Kind::kCall:
      return rules[node.rule] && places[node.next];
    case Kind::kEither:
      return std::ranges::any_of(node.alternatives, [&](GrammarPlace place) { return places[place]; });
  }
  return false;
}

// A reply that has entered a place without an end would go on until it is cut.
void GrammarBuilder::drop_endless(RuleIndex root) {
  std::vector<bool> places(grammar_->nodes_.size(), false);
  std::vector<bool> rules(grammar_->rules_.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] || !can_end(places, rules, grammar_->nodes_[i])) continue;
      changed = places[i] = true;
    }
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (rules[i] || !places[grammar_->rules_[i]]) continue;
      changed = rules[i] = true;
    }
  }
  if (!rules[root])
    fail(ErrorCode::kUnsupported,
         "no value fits {}, or none that ever ends; look for contradictions, and let it "
         "refer to itself in optional places only",
         what_);
  for (GrammarNode& node : grammar_->nodes_)
    std::erase_if(node.alternatives, [&](GrammarPlace place) { return !places[place]; });
}

// What may come first of what comes at a place before any word.
std::span<const GrammarPlace> GrammarBuilder::first_places(GrammarPlace place) const {
  const GrammarNode& node = grammar_->nodes_[place];
  if (node.kind == Kind::kCall) return {&grammar_->rules_[node.rule], 1};
  return node.alternatives;
}

// A rule that calls itself before any word would be entered for ever.
void GrammarBuilder::check_beginnings() const {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  struct Visit {
    GrammarPlace place;
    std::size_t seen;  // of its first places
  };
  std::vector<Mark> marks(grammar_->nodes_.size(), Mark::kNew);
  std::vector<Visit> way;
  const auto enter = [&](GrammarPlace place) {
    if (marks[place] == Mark::kOpen)
      fail(ErrorCode::kUnsupported, "{} refers to itself without anything in between; name the value's type",
           what_);
    if (marks[place] == Mark::kDone) return;
    marks[place] = Mark::kOpen;
    way.push_back({place, 0});
  };
  for (const GrammarPlace entry : grammar_->rules_) {
    enter(entry);
    while (!way.empty()) {
      Visit& visit = way.back();
      const std::span<const GrammarPlace> places = first_places(visit.place);
      if (visit.seen < places.size()) {
        enter(places[visit.seen++]);
      } else {
        marks[visit.place] = Mark::kDone;
        way.pop_back();
      }
    }
  }
}

}  // namespace perigee
