// Following a grammar with text and with random tokens. For tests only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/reply_grammar.h"
#include "support/vocabularies.h"

namespace perigee::test {

inline const ReplyGrammars& nano_grammars() {
  static const ReplyGrammars made(nano_tokenizer().vocabulary());
  return made;
}

// Is `text` a whole value of the schema, byte by byte?
inline bool fits(const std::string& schema, std::string_view text) {
  Constraint constraint(nano_grammars().value(schema));
  return constraint.accept_text(text) && constraint.finished();
}

inline std::vector<TokenId> allowed_ids(Constraint& constraint) {
  const std::size_t ids = nano_tokenizer().vocabulary().size();
  std::vector<std::uint64_t> bits((ids + 63) / 64, 0);
  constraint.allowed(bits);
  std::vector<TokenId> allowed;
  for (TokenId id = 0; id < ids; ++id) {
    if (bits[id / 64] >> (id % 64) & 1) allowed.push_back(id);
  }
  return allowed;
}

// Random allowed tokens from `seed` on until the grammar's end. Behind `patience` tokens those that close
// something come first, so that the way ends.
class RandomWalk {
 public:
  RandomWalk(std::shared_ptr<const Grammar> grammar, std::uint64_t seed, std::size_t patience = 150)
      : constraint_(std::move(grammar)), random_(seed * 2 + 1), patience_(patience) {}

  Constraint& constraint() { return constraint_; }
  const std::vector<TokenId>& ids() const { return ids_; }
  std::string text() const { return nano_tokenizer().decode_bytes(ids_); }

  // False: the end, or no token is allowed (then finished() says which).
  bool step() {
    const std::vector<TokenId> allowed = allowed_ids(constraint_);
    if (constraint_.finished() && (allowed.empty() || draw(3) == 0 || ids_.size() > patience_)) return false;
    if (allowed.empty()) return false;
    const TokenId id = ids_.size() < patience_ ? allowed[draw(allowed.size())] : closing(allowed);
    if (!constraint_.accept(id)) return false;
    ids_.push_back(id);
    return true;
  }
  bool finish() {
    while (ids_.size() < 20 * patience_ && step()) continue;
    return constraint_.finished();
  }

 private:
  std::size_t draw(std::size_t count) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(random_ >> 33) % count;
  }
  static TokenId closing(const std::vector<TokenId>& allowed) {
    // Special tokens have the highest ids, and of those that of closing is higher than that of opening.
    if (nano_tokenizer().vocabulary().is_special(allowed.back())) return allowed.back();
    const auto find = [&](std::string_view text) {
      return std::ranges::find(allowed, *nano_tokenizer().vocabulary().ordinary(text));
    };
    const bool in_string = find("~") != allowed.end();
    if (in_string && find("\"") != allowed.end()) return *find("\"");
    for (const std::string_view text : {"}", "]", "\"", ":", ",", "0"}) {
      if (find(text) != allowed.end()) return *find(text);
    }
    return *std::ranges::min_element(
        allowed, {}, [](TokenId id) { return nano_tokenizer().vocabulary().bytes(id).size(); });
  }

  Constraint constraint_;
  std::uint64_t random_;
  std::size_t patience_;
  std::vector<TokenId> ids_;
};

}  // namespace perigee::test
