#include "text/json_string.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::size_t kUnicodeEscape = 6;  // \uXXXX

// The code unit of the \u escape at the front of `text`; 0 if there is none, which is no surrogate either.
char32_t code_unit(std::string_view text) {
  if (text.size() < kUnicodeEscape || text.substr(0, 2) != "\\u") return 0;
  std::uint16_t unit = 0;
  std::from_chars(text.data() + 2, text.data() + kUnicodeEscape, unit, 16);
  return unit;
}

bool is_high_surrogate(char32_t unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low_surrogate(char32_t unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

// Appends what the \u escape at the front of `text` stands for; the bytes it took.
std::size_t append_unicode_escape(std::string& out, std::string_view text) {
  const char32_t unit = code_unit(text);
  if (is_high_surrogate(unit)) {
    const char32_t low = code_unit(text.substr(kUnicodeEscape));
    if (is_low_surrogate(low)) {
      append_utf8(out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
      return 2 * kUnicodeEscape;
    }
  }
  const bool lone = is_high_surrogate(unit) || is_low_surrogate(unit);
  append_utf8(out, lone ? kReplacementCharacter : unit);
  return kUnicodeEscape;
}

char simple_escape(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return c;  // quote, backslash, slash
  }
}

bool needs_escape(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

void append_escape(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
  }
}

}  // namespace

std::string decode_json_string(std::string_view quoted) {
  std::string_view rest = quoted.substr(1, quoted.size() - 2);
  std::string text;
  text.reserve(rest.size());
  while (!rest.empty()) {
    const std::size_t plain = std::min(rest.find('\\'), rest.size());
    text += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    if (rest[1] == 'u') {
      rest.remove_prefix(append_unicode_escape(text, rest));
    } else {
      text += simple_escape(rest[1]);
      rest.remove_prefix(2);
    }
  }
  return text;
}

void append_json_escaped(std::string& out, std::string_view text) {
  std::size_t plain = 0;  // begin of the run that needs no escape
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!needs_escape(text[at])) continue;
    out += text.substr(plain, at - plain);
    append_escape(out, text[at]);
    plain = at + 1;
  }
  out += text.substr(plain);
}

void append_python_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

}  // namespace perigee
