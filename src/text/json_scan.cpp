#include "text/json_scan.h"

#include <array>

namespace perigee {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

std::string_view trim_json_space(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

JsonStep JsonScanner::next() {
  if (problem_ != nullptr) return JsonStep::kBad;
  if (expect_ == Expect::kNothing) return JsonStep::kEnd;
  skip_space();
  if (at_ == text_.size()) return bad(at_, "the text ends before the value does; send all of it");
  const char c = text_[at_];
  switch (expect_) {
    case Expect::kItemOrClose:
      return c == ']' ? close() : value();
    case Expect::kKeyOrClose:
      return c == '}' ? close() : key();
    case Expect::kKey:
      return key();
    case Expect::kCommaOrClose:
      return comma_or_close();
    default:
      return value();
  }
}

void JsonScanner::skip_space() {
  while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
}

JsonStep JsonScanner::bad(std::size_t at, const char* problem) {
  at_ = at;
  problem_ = problem;
  return JsonStep::kBad;
}

JsonStep JsonScanner::value() {
  const char c = text_[at_];
  if (c == '{' || c == '[') return open(c == '{');
  if (c == '"') return scalar(string_end());
  // -Infinity begins like a number but is a word.
  if (is_digit(c) || (c == '-' && text_.substr(at_, 2) != "-I")) return scalar(number_end());
  return scalar(word_end());
}

JsonStep JsonScanner::scalar(std::size_t end) {
  if (end == kNone) return JsonStep::kBad;
  piece_ = text_.substr(at_, end - at_);
  at_ = end;
  expect_ = nesting_.empty() ? Expect::kNothing : Expect::kCommaOrClose;
  return JsonStep::kScalar;
}

JsonStep JsonScanner::key() {
  if (text_[at_] != '"') return bad(at_, "expected a member name; put it in double quotes");
  const std::size_t end = string_end();
  if (end == kNone) return JsonStep::kBad;
  piece_ = text_.substr(at_, end - at_);
  at_ = end;
  skip_space();
  if (at_ == text_.size() || text_[at_] != ':')
    return bad(at_, "expected a colon after the member name; add it");
  ++at_;
  expect_ = Expect::kValue;
  return JsonStep::kKey;
}

JsonStep JsonScanner::comma_or_close() {
  const char c = text_[at_];
  if (c == (in_object() ? '}' : ']')) return close();
  if (c != ',') {
    return bad(at_, in_object() ? "expected a comma or } after a member; add it"
                                : "expected a comma or ] after an array item; add it");
  }
  ++at_;
  expect_ = in_object() ? Expect::kKey : Expect::kValue;
  return next();  // one level at most: neither a key nor a value comes back here
}

JsonStep JsonScanner::open(bool object) {
  piece_ = text_.substr(at_++, 1);
  nesting_.push_back(object);
  expect_ = object ? Expect::kKeyOrClose : Expect::kItemOrClose;
  return JsonStep::kOpen;
}

JsonStep JsonScanner::close() {
  piece_ = text_.substr(at_++, 1);
  nesting_.pop_back();
  expect_ = nesting_.empty() ? Expect::kNothing : Expect::kCommaOrClose;
  return JsonStep::kClose;
}

std::size_t JsonScanner::string_end() {
  for (std::size_t at = at_ + 1; at < text_.size();) {
    const char c = text_[at];
    if (c == '"') return at + 1;
    if (c == '\\') {
      at = escape_end(at);
      if (at == kNone) return kNone;
      continue;
    }
    if (static_cast<unsigned char>(c) < 0x20 && !rules_.raw_controls) {
      bad(at, "control character in a string; write it as an escape");
      return kNone;
    }
    ++at;
  }
  bad(at_, "this string never ends; close it with a double quote");
  return kNone;
}

std::size_t JsonScanner::escape_end(std::size_t at) {
  const std::string_view rest = text_.substr(at + 1, 5);
  if (rest.empty()) return at + 1;  // string_end() reports the missing quote
  if (rest[0] != 'u') {
    if (std::string_view("\"\\/bfnrt").find(rest[0]) != kNone) return at + 2;
    bad(at, "unknown escape in a string; double the backslash");
    return kNone;
  }
  for (std::size_t i = 1; i < 5; ++i) {
    if (i < rest.size() && is_hex_digit(rest[i])) continue;
    bad(at, "incomplete \\u escape in a string; give it four hexadecimal digits");
    return kNone;
  }
  return at + 6;
}

std::size_t JsonScanner::number_end() {
  std::size_t at = at_;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at - first;
  };
  const auto is_next = [&](std::string_view set) {
    return at < text_.size() && set.find(text_[at]) != kNone;
  };
  const auto missing_digit = [&] {
    bad(at, "a digit is missing in a number; complete it");
    return kNone;
  };

  if (is_next("-")) ++at;
  const bool zero = is_next("0");
  const std::size_t whole = digits();
  if (whole == 0) return missing_digit();
  if (zero && whole > 1) {
    bad(at_, "a number begins with a needless zero; remove it or make this a string");
    return kNone;
  }
  if (is_next(".")) {
    ++at;
    if (digits() == 0) return missing_digit();
  }
  if (is_next("eE")) {
    ++at;
    if (is_next("+-")) ++at;
    if (digits() == 0) return missing_digit();
  }
  return at;
}

std::size_t JsonScanner::word_end() {
  static constexpr std::array<std::string_view, 6> kWords = {"null", "true",     "false",
                                                             "NaN",  "Infinity", "-Infinity"};
  const std::size_t allowed = rules_.constants ? kWords.size() : 3;
  for (std::size_t i = 0; i < allowed; ++i) {
    if (text_.substr(at_, kWords[i].size()) == kWords[i]) return at_ + kWords[i].size();
  }
  bad(at_, "expected a value; write null, true, false, a number, a string, an array or an object");
  return kNone;
}

}  // namespace perigee
