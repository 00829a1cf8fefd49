#include "text/special_search.h"

#include <algorithm>

namespace perigee {

SpecialSearch::SpecialSearch(std::span<const SpecialToken> specials) {
  for (const SpecialToken& special : specials) {
    sorted_.push_back(&special);
    begins_special_[static_cast<unsigned char>(special.text.front())] = true;
  }
  std::ranges::sort(sorted_, {}, &SpecialToken::text);
}

std::optional<SpecialSearch::Found> SpecialSearch::find(std::string_view text) const {
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (!begins_special_[static_cast<unsigned char>(text[begin])]) continue;
    if (const std::optional<Found> found = match_at(text, begin)) return found;
  }
  return std::nullopt;
}

// Narrows the sorted texts to those that agree with the text so far, one byte at a time.
std::optional<SpecialSearch::Found> SpecialSearch::match_at(std::string_view text, std::size_t begin) const {
  std::optional<Found> longest;
  std::span<const SpecialToken* const> agreeing = sorted_;
  for (std::size_t at = begin; !agreeing.empty() && at < text.size(); ++at) {
    const std::size_t depth = at - begin;
    const auto byte_of = [depth](const SpecialToken* special) {
      return static_cast<int>(static_cast<unsigned char>(special->text[depth]));
    };
    const int byte = static_cast<unsigned char>(text[at]);
    const auto first = std::ranges::lower_bound(agreeing, byte, {}, byte_of);
    const auto last = std::ranges::upper_bound(agreeing, byte, {}, byte_of);
    agreeing = {first, last};
    if (agreeing.empty() || agreeing.front()->text.size() != depth + 1) continue;
    longest = Found{begin, at + 1, agreeing.front()->id};
    agreeing = agreeing.subspan(1);
  }
  return longest;
}

}  // namespace perigee
