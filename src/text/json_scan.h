// Walks JSON text value by value without building anything: the one grammar behind the tree, the check of a
// literal and the one-level reading of tool arguments. Iterative, so depth costs a bit per level and never
// the stack. It does not decode strings (json_string.h) nor look at UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace perigee {

// What else than RFC 8259 is accepted. Python's reader takes NaN, Infinity and -Infinity, and, told so, raw
// control characters in strings (docs/chat-format.md, "Tool calls").
struct JsonRules {
  bool constants = false;
  bool raw_controls = false;
};

inline constexpr JsonRules kStrictJson{};
inline constexpr JsonRules kPythonJson{.constants = true, .raw_controls = true};

constexpr bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// `text` without JSON white space at either end.
std::string_view trim_json_space(std::string_view text);

enum class JsonStep : std::uint8_t {
  kScalar,  // a string with its quotes, a number, a word
  kOpen,    // [ or {
  kClose,   // ] or }
  kKey,     // a member's name with its quotes; its value comes next
  kEnd,     // the value is complete; what follows it was not looked at
  kBad,     // see problem() and position()
};

// Steps through the first value of `text`, which must outlive the scanner.
class JsonScanner {
 public:
  JsonScanner(std::string_view text, JsonRules rules) : text_(text), rules_(rules) {}

  JsonStep next();

  std::string_view piece() const { return piece_; }  // source text of the last kScalar, kOpen, kClose, kKey
  std::size_t position() const { return at_; }       // behind the last piece; of kBad the offending byte
  std::size_t depth() const { return nesting_.size(); }  // containers open after the last step
  const char* problem() const { return problem_; }       // "what; what to do"

 private:
  enum class Expect : std::uint8_t { kValue, kItemOrClose, kKeyOrClose, kKey, kCommaOrClose, kNothing };

  JsonStep value();
  JsonStep scalar(std::size_t end);
  JsonStep key();
  JsonStep comma_or_close();
  JsonStep open(bool object);
  JsonStep close();
  JsonStep bad(std::size_t at, const char* problem);

  // Each returns the end of what begins at at_, or npos after noting the problem.
  std::size_t string_end();
  std::size_t escape_end(std::size_t at);
  std::size_t number_end();
  std::size_t word_end();

  bool in_object() const { return nesting_.back(); }
  void skip_space();

  std::string_view text_;
  JsonRules rules_;
  std::size_t at_ = 0;
  std::string_view piece_;
  std::vector<bool> nesting_;  // true: object
  Expect expect_ = Expect::kValue;
  const char* problem_ = nullptr;
};

}  // namespace perigee
