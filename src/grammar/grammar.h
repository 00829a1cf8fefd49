// What a reply may look like: words (terminal.h) and special tokens in sequences, alternatives and rules that
// call each other. Immutable once made and shared by all replies that follow it; constraint.h follows it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/terminal.h"

namespace perigee {

using GrammarPlace = std::uint32_t;  // an index of a node
using RuleIndex = std::uint32_t;

struct GrammarNode {
  enum class Kind : std::uint8_t {
    kWord,     // of `terminal` with least … most characters, then `next`
    kSpecial,  // the special token `special`, then `next`
    kCall,     // the rule `rule`, then `next`
    kEither,   // one of `alternatives`
    kReturn,   // the end of a rule
  };
  Kind kind = Kind::kReturn;
  GrammarPlace next = 0;
  std::uint32_t terminal = 0;
  std::uint32_t least = 0, most = kUnlimited;
  TokenId special = kNoToken;
  RuleIndex rule = 0;
  std::vector<GrammarPlace> alternatives;
};

class Grammar {
 public:
  const GrammarNode& node(GrammarPlace place) const { return nodes_[place]; }
  const Terminal& terminal(const GrammarNode& word) const { return *terminals_[word.terminal]; }
  GrammarPlace entry(RuleIndex rule) const { return rules_[rule]; }
  RuleIndex root() const { return root_; }
  const TokenTrie& trie() const { return *trie_; }

 private:
  friend class GrammarBuilder;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<GrammarNode> nodes_;
  std::vector<std::shared_ptr<const Terminal>> terminals_;
  std::vector<GrammarPlace> rules_;  // where each begins
  RuleIndex root_ = 0;
};

// Builds from the end to the beginning: every part is told where it leads.
class GrammarBuilder {
 public:
  static constexpr std::size_t kMostNodes = 100'000;
  static constexpr std::size_t kMostRules = 10'000;

  // kUnsupported naming `what`, then and later, if the grammar grows beyond these.
  GrammarBuilder(std::shared_ptr<const TokenTrie> trie, std::string what);

  const TokenTrie& trie() const { return *grammar_->trie_; }

  GrammarPlace word(std::shared_ptr<const Terminal> terminal, GrammarPlace next, std::uint32_t least = 0,
                    std::uint32_t most = kUnlimited);
  // Exactly this text.
  GrammarPlace text(std::string_view text, GrammarPlace next);
  GrammarPlace special(TokenId id, GrammarPlace next);
  GrammarPlace call(RuleIndex rule, GrammarPlace next);
  GrammarPlace either(std::vector<GrammarPlace> alternatives);
  static constexpr GrammarPlace kEnd = 0;  // of the rule

  // A place whose alternatives are told later: the beginning of a loop.
  GrammarPlace loop();
  void set_loop(GrammarPlace loop, std::vector<GrammarPlace> alternatives);

  RuleIndex rule();  // its beginning is told later, so that it can call itself
  void set_rule(RuleIndex rule, GrammarPlace entry);

  // Drops alternatives that have no end. kUnsupported if nothing is left of `root`, or if a rule begins by
  // calling itself. The builder must not be used afterwards.
  std::shared_ptr<const Grammar> finish(RuleIndex root);

 private:
  [[noreturn]] void fail_too_large() const;
  GrammarPlace add(GrammarNode node);
  bool can_end(const std::vector<bool>& places, const std::vector<bool>& rules,
               const GrammarNode& node) const;
  void drop_endless(RuleIndex root);
  void check_beginnings() const;
  std::span<const GrammarPlace> first_places(GrammarPlace place) const;

  std::shared_ptr<Grammar> grammar_;
  std::string what_;
  std::map<std::string, std::shared_ptr<const Terminal>, std::less<>> texts_;
};

}  // namespace perigee
