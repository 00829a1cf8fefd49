// Schemas of arbitrary bytes, followed with a vocabulary of single bytes and some words.
#include "fuzz/grammar_checks.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz/small_vocabulary.h"
#include "grammar/reply_grammar.h"

namespace perigee::fuzz {
namespace {

// Tokens of one byte come first, id = byte.
constexpr std::array<std::string_view, 12> kWords = {"\",\"", "\":\"", "{\"", "\"}", "],", "true",
                                                     "null",  "12",    "é\"", "ab",  "}}", ",["};
constexpr std::size_t kMostSteps = 24;

const Vocabulary& small_vocabulary() {
  static const Vocabulary vocabulary = small_vocabulary_with(kWords);
  return vocabulary;
}

// Ends the process in every kind of build, so that libFuzzer keeps the input.
void must_hold(bool condition) {
  if (!condition) std::abort();
}

// The input also says which of the allowed tokens is taken.
void follow(std::shared_ptr<const Grammar> grammar, std::span<const std::uint8_t> input) {
  Constraint constraint(std::move(grammar));
  std::vector<std::uint64_t> bits(small_vocabulary().size() / 64 + 1);
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    std::ranges::fill(bits, 0);
    constraint.allowed(bits);
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < small_vocabulary().size(); ++id) {
      if (bits[id / 64] >> (id % 64) & 1) allowed.push_back(id);
    }
    if (allowed.empty()) return must_hold(constraint.finished());
    must_hold(constraint.accept(allowed[input[step % input.size()] % allowed.size()]));
  }
}

}  // namespace

void check_schema(std::span<const std::uint8_t> input) {
  static const ReplyGrammars grammars(small_vocabulary());
  if (input.empty()) return;
  try {
    follow(grammars.value(std::string(reinterpret_cast<const char*>(input.data()), input.size())), input);
  } catch (const Error& error) {
    must_hold(error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kCorrupt);
  }
}

}  // namespace perigee::fuzz
