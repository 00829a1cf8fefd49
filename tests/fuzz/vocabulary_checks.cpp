// Vocabulary files of arbitrary bytes, and text of arbitrary bytes with a small vocabulary made here.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "fuzz/text_checks.h"
#include "support/tiktoken_text.h"
#include "text/tokenizer.h"

namespace perigee::fuzz {
namespace {

void must_hold(bool condition) {
  if (!condition) std::abort();
}

const SpecialSlots& slots() {
  static const SpecialSlots four{4, {{0, "[BOS]"}, {1, "<|open|>"}, {3, "<|open|>>"}}};
  return four;
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<TokenId> plain = tokenizer.encode_plain(text);
  must_hold(tokenizer.decode_bytes(plain) == text);
  must_hold(std::ranges::none_of(plain, [&](TokenId id) { return tokenizer.vocabulary().is_special(id); }));
  must_hold(tokenizer.encode_plain_parallel(text, 2) == plain);
  must_hold(tokenizer.decode_bytes(tokenizer.encode_markup(text)) == text);
}

void check_file(const std::string& file) {
  try {
    const Tokenizer tokenizer(Vocabulary::parse(file, slots(), "input"));
    const Vocabulary& vocabulary = tokenizer.vocabulary();
    must_hold(vocabulary.size() == vocabulary.ordinary_count() + 4);
    for (TokenId id = 0; id < vocabulary.ordinary_count(); ++id)
      must_hold(vocabulary.ordinary(vocabulary.bytes(id)) == id);
    check_text(tokenizer, file);
  } catch (const Error& error) {
    must_hold(std::string_view(error.what()).starts_with("input: "));
  }
}

}  // namespace

void check_vocabulary(std::span<const std::uint8_t> input) {
  const std::string file(reinterpret_cast<const char*>(input.data()), input.size());
  check_file(file);
  // Behind the tokens that every vocabulary must have, so that a few lines are enough to be accepted.
  static const std::string single_bytes = test::tiktoken_text(test::with_single_bytes({}));
  check_file(single_bytes + file);
}

void check_encoder(std::span<const std::uint8_t> input) {
  static const Tokenizer tokenizer(Vocabulary::parse(
      test::tiktoken_text(test::with_single_bytes({"aa", "aaaa", "ab", "abab", "ba", "  ", "    ", " a", "<|",
                                                   "|>", "open", "\xE4\xBD", "\xE4\xBD\xA0", "\xE5\xA5\xBD",
                                                   "\xE4\xBD\xA0\xE5\xA5\xBD", "\xCC\x81", "12", "123"})),
      slots(), "tokens"));
  check_text(tokenizer, {reinterpret_cast<const char*>(input.data()), input.size()});
}

}  // namespace perigee::fuzz
