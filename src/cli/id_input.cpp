#include "cli/id_input.h"

#include <charconv>

#include "base/error.h"
#include "cli/token_view.h"

namespace perigee {
namespace {

constexpr std::string_view kBlank = " \t\n\r\f\v";
constexpr std::string_view kBetween = " \t\n\r\f\v,";
constexpr std::size_t kShownBytes = 24;

struct Bounds {
  std::size_t begin, end;
};

// The text inside the brackets, or without them the whole text.
Bounds inside_brackets(std::string_view text, const std::string& where) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos || text[first] != '[') return {0, text.size()};
  const std::size_t last = text.find_last_not_of(kBlank);
  if (text[last] != ']')
    fail(ErrorCode::kCorrupt, "{}: the list of ids that begins with [ has no ] at its end", where);
  return {first + 1, last};
}

std::string shortened(std::string_view word) {
  if (word.size() <= kShownBytes) return visible_text(word);
  return visible_text(word.substr(0, kShownBytes)) + "…";
}

}  // namespace

std::vector<TokenId> parse_token_ids(std::string_view text, const Vocabulary& vocabulary,
                                     const std::string& where) {
  const Bounds bounds = inside_brackets(text, where);
  const std::string_view list = text.substr(0, bounds.end);
  std::vector<TokenId> ids;
  for (std::size_t at = list.find_first_not_of(kBetween, bounds.begin); at != std::string_view::npos;) {
    const std::size_t end = std::min(list.find_first_of(kBetween, at), list.size());
    TokenId id = 0;
    const auto parsed = std::from_chars(list.data() + at, list.data() + end, id);
    if (parsed.ec != std::errc() || parsed.ptr != list.data() + end || id >= vocabulary.size()) {
      fail(ErrorCode::kCorrupt, "{}: word {} (\"{}\", byte {}) is no token id: this vocabulary has 0 to {}",
           where, ids.size() + 1, shortened(list.substr(at, end - at)), at, vocabulary.size() - 1);
    }
    ids.push_back(id);
    at = list.find_first_not_of(kBetween, end);
  }
  return ids;
}

}  // namespace perigee
