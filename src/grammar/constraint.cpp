#include "grammar/constraint.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace perigee {
namespace {

using Kind = GrammarNode::Kind;

// Readings of one text at once; sensible schemas have a handful, objects one for each optional member.
constexpr std::size_t kMostThreads = 4096;

void set_bit(std::span<std::uint64_t> bits, TokenId id) {
  if (id / 64 < bits.size()) bits[id / 64] |= std::uint64_t{1} << (id % 64);
}

void set_bits(std::span<std::uint64_t> bits, std::span<const std::uint64_t> others) {
  const std::size_t words = std::min(bits.size(), others.size());
  for (std::size_t i = 0; i < words; ++i) bits[i] |= others[i];
}

bool is_length_right(const GrammarNode& word, std::uint32_t characters) {
  return characters >= word.least && characters <= word.most;
}

}  // namespace

Constraint::Constraint(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), frames_(1), below_(grammar_->trie().depth() + 1) {
  enter(grammar_->entry(grammar_->root()), 0, threads_);
  tidy(threads_);
}

Constraint::StackIndex Constraint::pushed(GrammarPlace next, StackIndex up) {
  const std::uint64_t key = std::uint64_t{next} << 32 | up;
  const auto [place, is_new] = known_frames_.try_emplace(key, static_cast<StackIndex>(frames_.size()));
  if (is_new) frames_.push_back({next, up});
  return place->second;
}

// Adds what can be read or must be waited for at `place`.
void Constraint::enter(GrammarPlace begin, StackIndex stack_of_begin, Threads& threads) {
  entering_.assign(1, {begin, stack_of_begin});
  while (!entering_.empty()) {
    const auto [place, stack] = entering_.back();
    entering_.pop_back();
    const GrammarNode& node = grammar_->node(place);
    switch (node.kind) {
      case Kind::kWord:
        threads.push_back({.place = place, .stack = stack});
        if (node.least == 0 && grammar_->terminal(node).dfa()[Dfa::kStart].accepting)
          entering_.emplace_back(node.next, stack);
        break;
      case Kind::kSpecial:
        threads.push_back({.place = place, .stack = stack});
        break;
      case Kind::kEither:
        for (const GrammarPlace alternative : node.alternatives) entering_.emplace_back(alternative, stack);
        break;
      case Kind::kCall: {
        // A rule that ends with a call goes back to its own caller, so that lists do not pile up.
        const bool last = grammar_->node(node.next).kind == Kind::kReturn;
        entering_.emplace_back(grammar_->entry(node.rule), last ? stack : pushed(node.next, stack));
        break;
      }
      case Kind::kReturn:
        if (stack == 0)
          threads.push_back({.place = place, .stack = 0});
        else
          entering_.emplace_back(frames_[stack].next, frames_[stack].up);
        break;
    }
  }
}

void Constraint::tidy(Threads& threads) const {
  if (threads.size() < 2) return;
  std::ranges::sort(threads);
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  if (threads.size() > kMostThreads)
    fail(ErrorCode::kUnsupported,
         "the schema allows more than {} readings of the reply so far; give its "
         "alternatives different beginnings",
         kMostThreads);
}

void Constraint::step(const Threads& from, std::uint8_t byte, Threads& to) {
  to.clear();
  for (const Thread& thread : from) {
    const GrammarNode& node = grammar_->node(thread.place);
    if (node.kind != Kind::kWord) continue;
    const Dfa& dfa = grammar_->terminal(node).dfa();
    const Dfa::State state = dfa.next(thread.state, byte);
    if (state == Dfa::kDead) continue;
    const Dfa::Node& reached = dfa[state];
    const std::uint32_t characters = thread.characters + reached.ends_character;
    if (characters + reached.least_more > node.most) continue;
    if (!reached.edges.empty()) to.push_back({thread.place, thread.stack, state, characters});
    if (reached.accepting && characters >= node.least) enter(node.next, thread.stack, to);
  }
  tidy(to);
}

void Constraint::step_special(const Threads& from, TokenId id, Threads& to) {
  to.clear();
  for (const Thread& thread : from) {
    const GrammarNode& node = grammar_->node(thread.place);
    if (node.kind == Kind::kSpecial && node.special == id) enter(node.next, thread.stack, to);
  }
  tidy(to);
}

bool Constraint::accept(TokenId id) {
  const Vocabulary& vocabulary = grammar_->trie().vocabulary();
  if (!vocabulary.is_special(id)) return !vocabulary.bytes(id).empty() && accept_text(vocabulary.bytes(id));
  Threads reached;
  step_special(threads_, id, reached);
  return take(reached);
}

bool Constraint::accept_text(std::string_view text) {
  Threads reached = threads_, next;
  for (const char c : text) {
    step(reached, static_cast<std::uint8_t>(c), next);
    reached.swap(next);
  }
  return take(reached);
}

bool Constraint::take(Threads& reached) {
  if (reached.empty()) return false;
  threads_ = std::move(reached);
  return true;
}

bool Constraint::finished() const {
  return std::ranges::any_of(
      threads_, [&](const Thread& thread) { return grammar_->node(thread.place).kind == Kind::kReturn; });
}

void Constraint::filter(std::span<const TokenId> generated, std::span<std::uint64_t> bits) {
  for (; seen_ < generated.size(); ++seen_) {
    if (!accept(generated[seen_]))
      fail(ErrorCode::kInternal, "token {} was generated where its grammar does not allow it",
           generated[seen_]);
  }
  allowed(bits);
}

void Constraint::allowed(std::span<std::uint64_t> bits) {
  for (const Thread& thread : threads_) {
    const GrammarNode& node = grammar_->node(thread.place);
    if (node.kind == Kind::kSpecial) set_bit(bits, node.special);
    if (node.kind == Kind::kWord) mark_word(thread, bits);
  }
}

void Constraint::mark_word(const Thread& thread, std::span<std::uint64_t> bits) {
  const GrammarNode& node = grammar_->node(thread.place);
  const std::shared_ptr<const TokenReach> reach = grammar_->terminal(node).reach(thread.state);
  mark_inside(thread, *reach, bits);
  for (const TokenReach::Counted& token : reach->last) {
    if (is_length_right(node, thread.characters + token.characters)) set_bit(bits, token.id);
  }
  if (!reach->exits.empty()) mark_exits(thread, *reach, bits);
}

void Constraint::mark_inside(const Thread& thread, const TokenReach& reach,
                             std::span<std::uint64_t> bits) const {
  const GrammarNode& node = grammar_->node(thread.place);
  // The longest tokens come first.
  const auto is_too_long = [&](const TokenReach::Counted& token) {
    return thread.characters + token.characters > node.most;
  };
  const auto fitting = std::ranges::find_if_not(reach.inside, is_too_long);
  if (fitting == reach.inside.begin()) {
    set_bits(bits, reach.many);
    for (const TokenId id : reach.few) set_bit(bits, id);
    return;
  }
  if (reach.many.empty()) {
    for (auto token = fitting; token != reach.inside.end(); ++token) set_bit(bits, token->id);
    return;
  }
  std::vector<std::uint64_t> shorter = reach.many;
  for (auto token = reach.inside.begin(); token != fitting; ++token)
    shorter[token->id / 64] &= ~(std::uint64_t{1} << (token->id % 64));
  set_bits(bits, shorter);
}

// Tokens that end the word and go on with what may follow it.
void Constraint::mark_exits(const Thread& thread, const TokenReach& reach, std::span<std::uint64_t> bits) {
  const GrammarNode& node = grammar_->node(thread.place);
  Threads& after = below_[0];
  after.clear();
  enter(node.next, thread.stack, after);
  tidy(after);
  std::array<bool, 256> first_bytes{};
  bool any = false;
  for (const Thread& next : after) {
    const GrammarNode& following = grammar_->node(next.place);
    if (following.kind != Kind::kWord) continue;
    for (const Dfa::Edge& edge : grammar_->terminal(following).dfa()[next.state].edges) {
      std::fill(first_bytes.begin() + edge.low, first_bytes.begin() + edge.high + 1, true);
      any = true;
    }
  }
  if (!any) return;
  for (const TokenReach::Exit& exit : reach.exits) {
    if (is_length_right(node, thread.characters + exit.characters)) mark_below(exit.node, first_bytes, bits);
  }
}

// Tokens below a node of the trie, where the threads in below_[0] begin.
void Constraint::mark_below(std::uint32_t top, const std::array<bool, 256>& first_bytes,
                            std::span<std::uint64_t> bits) {
  const std::vector<TokenTrie::Node>& nodes = grammar_->trie().nodes();
  const std::size_t base = nodes[top].depth;
  for (std::uint32_t i = top + 1; i < nodes[top].end;) {
    const TokenTrie::Node& node = nodes[i];
    const std::size_t depth = node.depth - base;
    bool alive = depth > 1 || first_bytes[node.byte];
    if (alive) {
      step(below_[depth - 1], node.byte, below_[depth]);
      alive = !below_[depth].empty();
    }
    if (alive && node.token != kNoToken) set_bit(bits, node.token);
    i = alive ? i + 1 : node.end;
  }
}

}  // namespace perigee
