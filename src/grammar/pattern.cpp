#include "grammar/pattern.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "grammar/code_point_set.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr unsigned kDeepest = 64;  // of groups
constexpr std::uint32_t kMostRepeats =
    10'000;  // what can be followed is less, but depends on what is repeated

class PatternReader {
 public:
  PatternReader(std::string_view pattern, TextForm form, const std::string& where)
      : text_(pattern), form_(form), where_(where) {}

  RegexRef read() {
    std::vector<RegexRef> alternatives;
    do {
      std::vector<RegexRef> parts;
      if (!take('^')) parts.push_back(anything());
      parts.push_back(sequence(0));
      if (!take('$')) parts.push_back(anything());
      if (!at_end() && peek() != '|') refuse(peek() == ')' ? "a ) without (" : "an anchor inside it");
      alternatives.push_back(regex_sequence(std::move(parts)));
    } while (take('|'));
    return in_quotes(regex_alternatives(std::move(alternatives)), form_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kUnsupported, "{}: the pattern has {} at byte {}, which cannot be followed", where_, what,
         at_);
  }

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return text_[at_]; }
  bool take(char c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }
  char32_t take_code_point() {
    if (at_end()) refuse("an early end");
    const CodePoint point = decode_utf8(text_, at_);
    if (!point.valid) refuse("bytes that are no UTF-8");
    at_ += point.bytes;
    return point.value;
  }

  RegexRef characters(const CodePointSet& set) const { return written_character(set, form_); }
  RegexRef anything() const { return regex_repeat(characters(every_code_point()), 0); }

  // Up to what ends it.
  RegexRef sequence(unsigned depth) {
    std::vector<RegexRef> parts;
    while (!at_end() && peek() != '|' && peek() != ')' && peek() != '$') parts.push_back(repeated(depth));
    return regex_sequence(std::move(parts));
  }

  RegexRef repeated(unsigned depth) {
    RegexRef part = atom(depth);
    std::uint32_t least = 0, most = kUnlimited;
    if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      least = count();
      most = least;
      if (take(',')) most = !at_end() && peek() == '}' ? kUnlimited : count();
      if (!take('}') || most < least) refuse("a repetition that is none");
    } else if (!take('*')) {
      return part;
    }
    take('?');  // the least that fits rather than the most: the same words
    if (!at_end() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{'))
      refuse("a repetition of a repetition");
    return regex_repeat(std::move(part), least, most);
  }

  std::uint32_t count() {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || value > kMostRepeats) refuse("a repetition that is too large or no number");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  RegexRef atom(unsigned depth) {
    if (take('(')) return group(depth + 1);
    if (take('[')) return characters(bracket_class());
    if (take('.')) return characters(line_code_points());
    if (take('\\')) return characters(escape());
    const char c = peek();
    if (c == '*' || c == '+' || c == '?' || c == '{') refuse("a repetition of nothing");
    if (c == '^') refuse("an anchor inside it");
    const char32_t value = take_code_point();
    return characters({{value, value}});
  }

  RegexRef group(unsigned depth) {
    if (depth > kDeepest) refuse("too many groups inside each other");
    if (take('?') && !take(':')) {
      // A named group; what begins with (?<= or (?<! looks behind.
      if (!take('<') || at_end() || peek() == '=' || peek() == '!') refuse("a group that looks around");
      while (!at_end() && peek() != '>') ++at_;
      if (!take('>')) refuse("a group whose name does not end");
    }
    std::vector<RegexRef> alternatives;
    do alternatives.push_back(sequence(depth));
    while (take('|'));
    if (!take(')')) refuse(at_end() ? "a ( without )" : "an anchor inside it");
    return regex_alternatives(std::move(alternatives));
  }

  CodePointSet bracket_class() {
    const bool negated = take('^');
    CodePointSet set;
    while (!take(']')) {
      const CodePointSet first = class_member();
      if (at_end()) refuse("a [ without ]");
      const bool range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!range) {
        set.insert(set.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      const CodePointSet last = class_member();
      if (!is_single(first) || !is_single(last) || last[0].first < first[0].first)
        refuse("a range without two ascending ends");
      set.push_back({first[0].first, last[0].first});
    }
    set = negated ? complement(std::move(set)) : normalised(std::move(set));
    if (set.empty()) refuse("a class of no characters");
    return set;
  }

  static bool is_single(const CodePointSet& set) { return set.size() == 1 && set[0].first == set[0].last; }

  CodePointSet class_member() {
    if (take('\\')) {
      if (take('b')) return {{'\b', '\b'}};
      if (take('-')) return {{'-', '-'}};
      return escape();
    }
    const char32_t value = take_code_point();
    return {{value, value}};
  }

  // Behind the backslash.
  CodePointSet escape() {
    const char32_t c = take_code_point();
    if (std::optional<CodePointSet> named = named_class(c)) return *named;
    const char32_t value = escaped_character(c);
    return {{value, value}};
  }

  static std::optional<CodePointSet> named_class(char32_t c) {
    switch (c) {
      case 'd':
        return digit_code_points();
      case 'D':
        return complement(digit_code_points());
      case 'w':
        return word_code_points();
      case 'W':
        return complement(word_code_points());
      case 's':
        return space_code_points();
      case 'S':
        return complement(space_code_points());
      default:
        return std::nullopt;
    }
  }

  char32_t escaped_character(char32_t c) {
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case 'x':
        return hex(2);
      case 'u':
        return escaped_unicode();
      default:
        break;
    }
    const bool syntax = std::string_view("^$\\.*+?()[]{}|/-\"'@#%&=:,;<>~!_ ").find(static_cast<char>(c)) !=
                        std::string_view::npos;
    if (c >= 0x80 || !syntax) refuse("an escape of another kind");
    return c;
  }

  char32_t escaped_unicode() {
    if (take('{')) refuse("an escape of another kind");
    const char32_t first = hex(4);
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || !take('\\') || !take('u')) refuse("half a surrogate pair");
    const char32_t second = hex(4);
    if (second < 0xDC00 || second > 0xDFFF) refuse("half a surrogate pair");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  char32_t hex(std::size_t digits) {
    std::uint32_t value = 0;
    if (text_.size() - at_ < digits) refuse("an early end");
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + digits, value, 16);
    if (error != std::errc{} || end != begin + digits) refuse("an escape without its digits");
    at_ += digits;
    return value;
  }

  std::string_view text_;
  TextForm form_;
  const std::string& where_;
  std::size_t at_ = 0;
};

}  // namespace

RegexRef read_pattern(std::string_view pattern, TextForm form, const std::string& where) {
  return PatternReader(pattern, form, where).read();
}

}  // namespace perigee
