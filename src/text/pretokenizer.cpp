#include "text/pretokenizer.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "text/unicode.h"
#include "text/utf8.h"

// The pattern's alternatives, of which the first that matches wins. X is [^\r\n\p{L}\p{N}], U is Lu Lt Lm Lo
// M without Han, W is Ll Lm Lo M without Han, C is (?i:'s|'t|'re|'ve|'m|'ll|'d):
//   \p{Han}+        X? U* W+ C?        X? U+ W* C?        \p{N}{1,3}
//    ?[^\s\p{L}\p{N}]+[\r\n]*          \s*[\r\n]+         \s+(?!\S)        \s+
// Each function below takes one pass over its piece, with what a matcher would find by giving characters back
// noted on the way; what it reads beyond the piece's end is read at most once more by the next piece.

namespace perigee {
namespace {

struct Char {
  std::size_t end;
  std::uint8_t bits;  // its class
};

// Eight bytes, the first in the lowest place.
std::uint64_t load_little_endian(const char* bytes) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t eight;
  std::memcpy(&eight, bytes, sizeof eight);
  return eight;
}

// A byte that begins no valid character stands alone and has no class.
inline Char char_at(std::string_view text, std::size_t at) {
  const std::uint8_t bits = byte_class(text[at]);
  if (bits != kCharMultiByte) [[likely]]
    return {at + 1, bits};
  const CodePoint decoded = decode_utf8(text, at);
  if (!decoded.valid) return {at + 1, 0};
  return {at + decoded.bytes, char_class(decoded.value)};
}

// The end of the run of characters from `at` on that have one of `bits`.
std::size_t run_end(std::string_view text, std::size_t at, std::uint8_t bits) {
  while (at < text.size()) {
    const Char next = char_at(text, at);
    if ((next.bits & bits) == 0) break;
    at = next.end;
  }
  return at;
}

// The end of the run of a…z from `at` on, eight bytes at a time: this is where the bytes of most text are.
std::size_t ascii_lower_end(std::string_view text, std::size_t at) {
  constexpr std::uint64_t kEach = 0x0101010101010101;
  constexpr std::uint64_t kHighBits = 0x80 * kEach;
  while (text.size() - at >= 8) {
    const std::uint64_t eight = load_little_endian(text.data() + at);
    const std::uint64_t low = eight & ~kHighBits;
    const std::uint64_t from_a = low + (0x80 - 'a') * kEach;
    const std::uint64_t after_z = low + (0x80 - 'z' - 1) * kEach;
    const std::uint64_t others = (~from_a | after_z | eight) & kHighBits;
    if (others != 0) return at + static_cast<unsigned>(std::countr_zero(others)) / 8;
    at += 8;
  }
  return at;
}

// W* from `at` on.
std::size_t lower_end(std::string_view text, std::size_t at) {
  return run_end(text, ascii_lower_end(text, at), kCharLower);
}

// U* W+, or else U+ W*, from `at` on; `at` if neither matches. U* takes all it can; if no W follows, it gives
// back down to the last character that is both.
std::size_t word_end(std::string_view text, std::size_t at) {
  std::size_t after_both = 0;
  while (at < text.size()) {
    const Char next = char_at(text, at);
    if ((next.bits & kCharUpper) == 0) {
      if ((next.bits & kCharLower) != 0) return lower_end(text, next.end);
      break;
    }
    at = next.end;
    if ((next.bits & kCharLower) != 0) after_both = at;
  }
  return after_both != 0 ? after_both : at;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)? from `at` on. Case folding makes U+017F, the long s, an s as well.
std::size_t contraction_end(std::string_view text, std::size_t at) {
  if (at >= text.size() || text[at] != '\'') return at;
  const std::string_view rest = text.substr(at + 1, 2);
  const auto lower = [&](std::size_t i) {
    return i < rest.size() ? static_cast<char>(rest[i] | 0x20) : '\0';
  };
  switch (lower(0)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return at + 2;
    case 'r':
    case 'v':
      return lower(1) == 'e' ? at + 3 : at;
    case 'l':
      return lower(1) == 'l' ? at + 3 : at;
    default:
      return rest == "\u017F" ? at + 3 : at;
  }
}

std::size_t number_end(std::string_view text, std::size_t at) {
  for (int digits = 0; digits < 3 && at < text.size(); ++digits) {
    const Char next = char_at(text, at);
    if ((next.bits & kCharNumber) == 0) break;
    at = next.end;
  }
  return at;
}

bool is_symbol(Char character) {
  return (character.bits & (kCharSpace | kCharLetter | kCharNumber)) == 0;
}

// [^\s\p{L}\p{N}]+[\r\n]* from `at` on; `at` if it does not match.
std::size_t symbols_end(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  while (at < text.size()) {
    const Char next = char_at(text, at);
    if (!is_symbol(next)) break;
    at = next.end;
  }
  return at == begin ? begin : run_end(text, at, kCharNewline);
}

// \s*[\r\n]+, or else \s+(?!\S), or else \s+, from a white-space character on.
std::size_t space_end(std::string_view text, std::size_t begin) {
  std::size_t after_newline = 0;
  std::size_t last = begin;
  std::size_t at = begin;
  while (at < text.size()) {
    const Char next = char_at(text, at);
    if ((next.bits & kCharSpace) == 0) break;
    last = at;
    at = next.end;
    if ((next.bits & kCharNewline) != 0) after_newline = at;
  }
  if (after_newline != 0) return after_newline;
  if (at == text.size() || last == begin) return at;
  return last;
}

}  // namespace

std::size_t piece_end(std::string_view text, std::size_t begin) {
  const Char first = char_at(text, begin);
  if ((first.bits & kCharHan) != 0) return run_end(text, first.end, kCharHan);
  // A mark at the beginning is a part of the word, and the optional character before it as well; the outcome
  // is the same.
  if ((first.bits & (kCharUpper | kCharLower)) != 0) return contraction_end(text, word_end(text, begin));
  if ((first.bits & kCharNumber) != 0) return number_end(text, begin);
  if ((first.bits & kCharNewline) != 0) return space_end(text, begin);

  const std::size_t word = word_end(text, first.end);
  if (word != first.end) return contraction_end(text, word);
  if (is_symbol(first)) return symbols_end(text, begin);
  if (text[begin] == ' ') {
    const std::size_t symbols = symbols_end(text, first.end);
    if (symbols != first.end) return symbols;
  }
  return space_end(text, begin);
}

}  // namespace perigee
