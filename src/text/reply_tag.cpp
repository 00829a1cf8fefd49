#include "text/reply_tag.h"

#include <array>
#include <utility>

namespace perigee {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

std::string_view first_word(std::string_view text) {
  const std::string_view rest = trimmed(text);
  return rest.substr(0, rest.find_first_of(kWhiteSpace));
}

// Letters of other scripts count, so that a key is never taken for the end of a longer one.
bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string_view word_before(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && is_word_byte(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// The encoder escapes & first and " second, so one pass from the left undoes both.
std::string unescaped(std::string_view value) {
  constexpr std::array<std::pair<std::string_view, char>, 2> kEntities = {{{"&quot;", '"'}, {"&amp;", '&'}}};
  std::string out;
  for (std::size_t at = 0; at < value.size();) {
    std::size_t used = 1;
    char c = value[at];
    for (const auto& [entity, meaning] : kEntities)
      if (value.substr(at).starts_with(entity)) used = entity.size(), c = meaning;
    out += c;
    at += used;
  }
  return out;
}

}  // namespace

TagName tag_name(std::string_view header) {
  constexpr std::array<std::pair<std::string_view, TagName>, 7> kNames = {{{"think", TagName::kThink},
                                                                           {"response", TagName::kResponse},
                                                                           {"tools", TagName::kTools},
                                                                           {"call", TagName::kCall},
                                                                           {"argument", TagName::kArgument},
                                                                           {"json", TagName::kJson},
                                                                           {"message", TagName::kMessage}}};
  const std::string_view word = first_word(header);
  for (const auto& [text, name] : kNames)
    if (word == text) return name;
  return TagName::kUnknown;
}

ReplyTag::ReplyTag(bool opens, std::string header)
    : opens_(opens),
      bare_(trimmed(header) == first_word(header)),
      name_(tag_name(header)),
      header_(std::move(header)) {}

std::optional<std::string> ReplyTag::attribute(std::string_view key) const {
  const std::string_view text = header_;
  std::optional<std::string_view> found;
  std::size_t at = 0;
  for (;;) {
    const std::size_t equals = text.find("=\"", at);
    if (equals == std::string_view::npos) break;
    const std::string_view word = word_before(text.substr(at), equals - at);
    at = equals + 2;
    if (word.empty()) continue;
    const std::size_t quote = text.find('"', at);
    if (quote == std::string_view::npos) break;
    if (word == key) found = text.substr(at, quote - at);
    at = quote + 1;
  }
  if (!found) return std::nullopt;
  return unescaped(*found);
}

}  // namespace perigee
