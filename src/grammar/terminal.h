// One kind of word of a grammar (a string, a number, a member's name) and what every token of the vocabulary
// does in each state of its automaton. That is worked out when a state is first met and kept: most states of
// most grammars are those of a JSON string, so later tokens cost a copy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "grammar/dfa.h"
#include "grammar/token_trie.h"

namespace perigee {

// Tokens from one state on. Lengths are characters that a token completes or begins (Dfa::Node), and count
// only in words whose length is limited.
struct TokenReach {
  struct Counted {
    TokenId id;
    std::uint32_t characters;
  };
  struct Exit {
    std::uint32_t node;        // of the trie, with tokens below it
    std::uint32_t characters;  // completed on the way there
  };
  // Tokens that stay inside the word, as ids if they are few, otherwise as bits.
  std::vector<TokenId> few;
  std::vector<std::uint64_t> many;
  // The same tokens with the characters that the word has at least if it goes on with them: most first. Only
  // of a terminal that counts.
  std::vector<Counted> inside;
  // Tokens with whose last byte the word is over.
  std::vector<Counted> last;
  // Where the word may be over and tokens go on.
  std::vector<Exit> exits;
};

class Terminal {
 public:
  enum class Border {
    kAnywhere,  // what follows may begin inside a token
    kAtTokens,  // what follows is a special token, so nothing is gained by looking inside
  };
  enum class Lengths { kIgnored, kCounted };

  // Keeps a reference to the trie.
  Terminal(Dfa dfa, const TokenTrie& trie, Border border, Lengths lengths);

  const Dfa& dfa() const { return dfa_; }
  // Any thread.
  std::shared_ptr<const TokenReach> reach(Dfa::State state) const;

 private:
  static constexpr std::size_t kMostKnown = 256;  // states; what a pattern with large limits may fill

  TokenReach look(Dfa::State state) const;
  void add_token(TokenId token, Dfa::State state, std::uint32_t characters, TokenReach& reach) const;
  void finish(TokenReach& reach) const;

  Dfa dfa_;
  const TokenTrie& trie_;
  Border border_;
  Lengths lengths_;
  mutable std::mutex mutex_;
  mutable std::map<Dfa::State, std::shared_ptr<const TokenReach>> known_;
};

}  // namespace perigee
