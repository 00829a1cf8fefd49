// One reply on its way through a grammar: which ids may come next, and what an id does. Ambiguous places are
// followed on all ways at once. Deliberately knows nothing of probabilities; the engine's sampler asks for
// the ids (engine/sampler.h: TokenFilter).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace perigee {

class Constraint {
 public:
  explicit Constraint(std::shared_ptr<const Grammar> grammar);

  // Sets the bits of the ids that may come next, 64 ids to a word. Bits beyond the span are left out.
  void allowed(std::span<std::uint64_t> bits);

  // Goes on with this id; false, and nothing has changed, if it may not come next.
  bool accept(TokenId id);
  // The same for text that stands in the prompt already.
  bool accept_text(std::string_view text);

  bool finished() const;  // the grammar's end has been reached; it may also go on

  // For a sampler: accepts what has been generated since the last call, then allowed(). kInternal if an id
  // was not allowed.
  void filter(std::span<const TokenId> generated, std::span<std::uint64_t> bits);

 private:
  using StackIndex = std::uint32_t;  // of frames_; 0: the root rule
  struct Frame {
    GrammarPlace next;  // where the calling rule goes on
    StackIndex up;
  };
  struct Thread {
    GrammarPlace place = 0;
    StackIndex stack = 0;
    Dfa::State state = Dfa::kStart;  // of a word
    std::uint32_t characters = 0;    // of a word, complete ones
    auto operator<=>(const Thread&) const = default;
  };
  using Threads = std::vector<Thread>;

  StackIndex pushed(GrammarPlace next, StackIndex up);
  void enter(GrammarPlace place, StackIndex stack, Threads& threads);
  void step(const Threads& from, std::uint8_t byte, Threads& to);
  void step_special(const Threads& from, TokenId id, Threads& to);
  void tidy(Threads& threads) const;
  bool take(Threads& reached);

  void mark_word(const Thread& thread, std::span<std::uint64_t> bits);
  void mark_inside(const Thread& thread, const TokenReach& reach, std::span<std::uint64_t> bits) const;
  void mark_exits(const Thread& thread, const TokenReach& reach, std::span<std::uint64_t> bits);
  void mark_below(std::uint32_t node, const std::array<bool, 256>& first_bytes,
                  std::span<std::uint64_t> bits);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, StackIndex> known_frames_;
  Threads threads_;
  std::size_t seen_ = 0;                                       // ids that filter() has accepted
  std::vector<std::pair<GrammarPlace, StackIndex>> entering_;  // scratch of enter()
  std::vector<Threads> below_;                                 // scratch of mark_below(), by depth
};

}  // namespace perigee
