#include "grammar/json_words.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/json_string.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr char32_t kLastCodePoint = 0x10FFFF;

RegexRef one_of(std::string_view bytes) {
  std::vector<RegexRef> parts;
  for (const char c : bytes)
    parts.push_back(regex_byte(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c)));
  return regex_alternatives(std::move(parts));
}

RegexRef digit() {
  return regex_byte('0', '9');
}

RegexRef hex_digit() {
  return regex_alternatives({digit(), regex_byte('a', 'f'), regex_byte('A', 'F')});
}

RegexRef optional(RegexRef part) {
  return regex_repeat(std::move(part), 0, 1);
}

bool must_be_escaped(char32_t c) {
  return c < 0x20 || c == '"' || c == '\\';
}

// \u and four digits: a code point of its own, or a pair of surrogates.
RegexRef unicode_escape() {
  const RegexRef hex = hex_digit();
  const RegexRef other_first = regex_alternatives({digit(), one_of("abcefABCEF")});
  const RegexRef d = one_of("dD");
  const RegexRef plain = regex_alternatives(
      {regex_sequence({other_first, hex, hex, hex}), regex_sequence({d, regex_byte('0', '7'), hex, hex})});
  const RegexRef high = regex_sequence({d, one_of("89abAB"), hex, hex});
  const RegexRef low = regex_sequence({d, one_of("cdefCDEF"), hex, hex});
  return regex_sequence(
      {regex_text("\\u"), regex_alternatives({plain, regex_sequence({high, regex_text("\\u"), low})})});
}

// Any character of a JSON string in any of its spellings.
RegexRef json_character() {
  const RegexRef short_escape = regex_sequence({regex_text("\\"), one_of("\"\\/bfnrt")});
  return regex_character(
      regex_alternatives({regex_code_points(0x20, '"' - 1), regex_code_points('"' + 1, '\\' - 1),
                          regex_code_points('\\' + 1, kLastCodePoint), short_escape, unicode_escape()}));
}

RegexRef json_integer() {
  return regex_sequence({optional(regex_text("-")),
                         regex_alternatives({regex_text("0"), regex_sequence({regex_byte('1', '9'),
                                                                              regex_repeat(digit(), 0)})})});
}

// Exponents of at most two digits, so that every reader finds the number finite.
RegexRef json_number() {
  const RegexRef fraction = regex_sequence({regex_text("."), regex_repeat(digit(), 1)});
  const RegexRef exponent =
      regex_sequence({one_of("eE"), optional(one_of("+-")), regex_repeat(digit(), 1, 2)});
  return regex_sequence({json_integer(), optional(fraction), optional(exponent)});
}

// As frames write it: & and " are escaped.
RegexRef attribute_text() {
  const RegexRef character = regex_alternatives(
      {regex_code_points(0x20, '"' - 1), regex_code_points('"' + 1, '&' - 1),
       regex_code_points('&' + 1, kLastCodePoint), regex_text("&amp;"), regex_text("&quot;")});
  return regex_repeat(character, 1);
}

}  // namespace

RegexRef written_character(std::span<const CodePointRange> ranges, TextForm form) {
  std::vector<RegexRef> parts;
  for (const CodePointRange& range : ranges) {
    if (form == TextForm::kRaw) {
      parts.push_back(regex_code_points(range.first, range.last));
      continue;
    }
    char32_t first = range.first;  // of what has not been written yet
    const char32_t last_special = std::min<char32_t>(range.last, '\\');
    for (char32_t c = range.first; c <= last_special; ++c) {
      if (!must_be_escaped(c)) continue;
      if (first < c) parts.push_back(regex_code_points(first, c - 1));
      std::string escaped, bytes;
      append_utf8(bytes, c);
      append_json_escaped(escaped, bytes);
      parts.push_back(regex_text(escaped));
      first = c + 1;
    }
    if (first <= range.last) parts.push_back(regex_code_points(first, range.last));
  }
  return regex_character(regex_alternatives(std::move(parts)));
}

RegexRef in_quotes(RegexRef inner, TextForm form) {
  if (form == TextForm::kRaw) return inner;
  return regex_sequence({regex_text("\""), std::move(inner), regex_text("\"")});
}

RegexRef written_text(std::string_view text, TextForm form) {
  std::string written;
  if (form == TextForm::kRaw)
    written = text;
  else
    append_json_escaped(written, text);
  return in_quotes(regex_text(written), form);
}

RegexRef plain_json_string() {
  const RegexRef character =
      regex_alternatives({regex_code_points(0x20, '"' - 1), regex_code_points('"' + 1, '\\' - 1),
                          regex_code_points('\\' + 1, kLastCodePoint)});
  return in_quotes(regex_repeat(character, 0), TextForm::kJson);
}

JsonWords::JsonWords(std::shared_ptr<const TokenTrie> trie) : trie_(std::move(trie)) {
  using Border = Terminal::Border;
  using Lengths = Terminal::Lengths;
  const auto make = [&](const RegexRef& regex, const char* what, Border border = Border::kAnywhere,
                        Lengths lengths = Lengths::kIgnored) {
    return std::make_shared<const Terminal>(Dfa(*regex, what), *trie_, border, lengths);
  };
  const RegexRef json_string = in_quotes(regex_repeat(json_character(), 0), TextForm::kJson);
  const RegexRef raw_string = regex_repeat(regex_character(regex_code_points(0, kLastCodePoint)), 0);
  string_ = make(json_string, "a string");
  counted_string_ = make(json_string, "a string", Border::kAnywhere, Lengths::kCounted);
  raw_ = make(raw_string, "a text", Border::kAtTokens);
  counted_raw_ = make(raw_string, "a text", Border::kAtTokens, Lengths::kCounted);
  integer_ = make(json_integer(), "an integer");
  number_ = make(json_number(), "a number");
  boolean_ = make(regex_alternatives({regex_text("true"), regex_text("false")}), "a boolean");
  null_ = make(regex_text("null"), "null");
  bytes_ = make(regex_repeat(regex_byte(0, 0xFF), 0), "a channel", Border::kAtTokens);
  attribute_ = make(attribute_text(), "an attribute");
  position_ = make(regex_sequence({regex_byte('1', '9'), regex_repeat(digit(), 0)}), "a position");
}

}  // namespace perigee
