#include "checkpoint/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace perigee {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

bool needs_escape(char c) {
  return is_control(c) || c == '"' || c == '\\';
}

void append_escaped(std::string& out, std::string_view text) {
  // Nearly every name of a checkpoint is plain, and an index has half a million of them.
  const auto first = std::find_if(text.begin(), text.end(), needs_escape);
  const auto plain = static_cast<std::size_t>(first - text.begin());
  out += text.substr(0, plain);
  text.remove_prefix(plain);
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (is_control(c)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
}

}  // namespace

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  std::string out = "\"";
  append_escaped(out, name.substr(0, kLongest));
  if (name.size() > kLongest) out += "...";
  return out + '"';
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_control);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

}  // namespace perigee
