#include "grammar/number_range.h"

#include <algorithm>
#include <string>
#include <utility>

namespace perigee {
namespace {

using Limit = std::optional<std::int64_t>;

RegexRef digits(std::size_t least, std::uint32_t most) {
  return regex_repeat(regex_byte('0', '9'), static_cast<std::uint32_t>(least), most);
}

RegexRef exactly_digits(std::size_t count) {
  return digits(count, static_cast<std::uint32_t>(count));
}

// One digit of low … high, then so many of any kind.
RegexRef digit_then_any(char low, char high, std::size_t count) {
  if (low > high) return regex_alternatives({});
  return regex_sequence(
      {regex_byte(static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high)), exactly_digits(count)});
}

// Digits as many as those of `limit` from `at` on, and not less (upward) or not more (downward) than they
// are.
RegexRef limited_digits(const std::string& limit, std::size_t at, bool upward) {
  if (at == limit.size()) return regex_sequence({});
  const char digit = limit[at];
  const std::size_t rest = limit.size() - at - 1;
  const RegexRef equal =
      regex_sequence({regex_text(std::string(1, digit)), limited_digits(limit, at + 1, upward)});
  const RegexRef other = upward ? digit_then_any(static_cast<char>(digit + 1), '9', rest)
                                : digit_then_any('0', static_cast<char>(digit - 1), rest);
  return regex_alternatives({equal, other});
}

// Both limits have the same number of digits.
RegexRef between(const std::string& low, const std::string& high) {
  const auto [mine, theirs] = std::ranges::mismatch(low, high);
  const auto at = static_cast<std::size_t>(mine - low.begin());
  if (at == low.size()) return regex_text(low);
  const std::size_t rest = low.size() - at - 1;
  const RegexRef from_low =
      regex_sequence({regex_text(std::string(1, low[at])), limited_digits(low, at + 1, true)});
  const RegexRef to_high =
      regex_sequence({regex_text(std::string(1, high[at])), limited_digits(high, at + 1, false)});
  const RegexRef middle =
      digit_then_any(static_cast<char>(low[at] + 1), static_cast<char>(high[at] - 1), rest);
  return regex_sequence({regex_text(low.substr(0, at)), regex_alternatives({from_low, middle, to_high})});
}

// Whole numbers of least … most, 0 <= least.
RegexRef naturals(std::int64_t least, Limit most) {
  if (most && *most < least) return regex_alternatives({});
  const std::string low = std::to_string(least);
  const std::string high = most ? std::to_string(*most) : std::string(low.size(), '9');
  std::vector<RegexRef> parts;
  for (std::size_t size = low.size(); size <= high.size(); ++size) {
    const std::string smallest = size == low.size() ? low : '1' + std::string(size - 1, '0');
    const std::string largest = size == high.size() ? high : std::string(size, '9');
    parts.push_back(between(smallest, largest));
  }
  if (!most) parts.push_back(regex_sequence({regex_byte('1', '9'), digits(low.size(), kUnlimited)}));
  return regex_alternatives(std::move(parts));
}

RegexRef optional(RegexRef part) {
  return regex_repeat(std::move(part), 0, 1);
}

// Of numbers that are not negative.
struct Magnitudes {
  std::int64_t least;
  bool above_least;
  Limit most;
  bool below_most;
};

RegexRef whole(const Magnitudes& range) {
  Limit most = range.most;
  if (most && range.below_most) --*most;
  return naturals(range.least + range.above_least, most);
}

RegexRef with_fractions(const Magnitudes& range) {
  const RegexRef point = regex_text(".");
  const RegexRef any = regex_sequence({point, digits(1, kUnlimited)});
  const RegexRef more_than_nothing =
      regex_sequence({point, digits(0, kUnlimited), regex_byte('1', '9'), digits(0, kUnlimited)});
  const RegexRef nothing = regex_sequence({point, regex_repeat(regex_text("0"), 1)});
  const RegexRef low = regex_text(std::to_string(range.least));
  std::vector<RegexRef> parts;
  if (!range.most || range.least < *range.most) {
    parts.push_back(regex_sequence({low, range.above_least ? more_than_nothing : optional(any)}));
    Limit before = range.most;
    if (before) --*before;
    parts.push_back(regex_sequence({naturals(range.least + 1, before), optional(any)}));
  }
  const bool reaches = range.most && !range.below_most && *range.most >= range.least &&
                       !(range.above_least && *range.most == range.least);
  if (reaches) parts.push_back(regex_sequence({regex_text(std::to_string(*range.most)), optional(nothing)}));
  return regex_alternatives(std::move(parts));
}

// `written` makes the words of magnitudes; negative numbers are those of the mirrored range behind a sign.
template <typename Written>
RegexRef signed_range(const NumberRange& range, const Written& written) {
  std::vector<RegexRef> parts;
  if (!range.most || *range.most >= 0) {
    const bool positive_limit = range.least && *range.least >= 0;
    parts.push_back(written(Magnitudes{.least = positive_limit ? *range.least : 0,
                                       .above_least = positive_limit && range.above_least,
                                       .most = range.most,
                                       .below_most = range.below_most}));
  }
  if (!range.least || *range.least < 0) {
    const bool negative_limit = range.most && *range.most < 0;
    parts.push_back(regex_sequence(
        {regex_text("-"), written(Magnitudes{.least = negative_limit ? -*range.most : 0,
                                             .above_least = negative_limit ? range.below_most : true,
                                             .most = range.least ? Limit(-*range.least) : std::nullopt,
                                             .below_most = range.above_least})}));
  }
  return regex_alternatives(std::move(parts));
}

}  // namespace

RegexRef integers_in(const NumberRange& range) {
  return signed_range(range, whole);
}

RegexRef numbers_in(const NumberRange& range) {
  return signed_range(range, with_fractions);
}

}  // namespace perigee
