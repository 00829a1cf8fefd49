#include "grammar/number_range.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "grammar/dfa.h"

namespace perigee {
namespace {

using Limit = std::optional<std::int64_t>;

bool is_inside(const NumberRange& range, double value) {
  if (range.least && (value < *range.least || (range.above_least && value == *range.least))) return false;
  if (range.most && (value > *range.most || (range.below_most && value == *range.most))) return false;
  return true;
}

// Ranges around zero, around a change of the number of digits, open and closed.
std::vector<NumberRange> ranges() {
  std::vector<NumberRange> all;
  for (const Limit least :
       {Limit(), Limit(-105), Limit(-10), Limit(-1), Limit(0), Limit(1), Limit(9), Limit(98)}) {
    for (const Limit most : {Limit(), Limit(-98), Limit(-1), Limit(0), Limit(1), Limit(10), Limit(101)}) {
      if (least && most && *least >= *most) continue;
      for (const bool open : {false, true}) {
        all.push_back({.least = least, .most = most, .above_least = open && least, .below_most = false});
        all.push_back({.least = least, .most = most, .above_least = false, .below_most = open && most});
      }
    }
  }
  return all;
}

std::string name(const NumberRange& range) {
  return fmt::format("{}{} to {}{}", range.least ? std::to_string(*range.least) : "any",
                     range.above_least ? " left out" : "", range.most ? std::to_string(*range.most) : "any",
                     range.below_most ? " left out" : "");
}

TEST(NumberRange, IntegersAreExactlyThoseBetweenTheLimits) {
  for (const NumberRange& range : ranges()) {
    bool any = !range.least || !range.most;
    for (int value = -1200; value <= 1200; ++value) any = any || is_inside(range, value);
    if (!any) continue;
    const Dfa dfa(*integers_in(range), "the range");
    for (int value = -1200; value <= 1200; ++value)
      EXPECT_EQ(dfa.accepts(std::to_string(value)), is_inside(range, value)) << value << ": " << name(range);
    for (const char* text : {"", "-", "00", "01", "-0", "-01", "1.0", "1e1"})
      EXPECT_FALSE(dfa.accepts(text)) << text << ": " << name(range);
  }
}

TEST(NumberRange, NumbersAreThoseBetweenTheLimitsWithAnyFraction) {
  for (const NumberRange& range : ranges()) {
    const Dfa dfa(*numbers_in(range), "the range");
    for (int whole = -110; whole <= 110; ++whole) {
      for (const char* fraction : {"", ".0", ".5", ".00", ".001", ".990"}) {
        const std::string text = std::to_string(whole) + fraction;
        EXPECT_EQ(dfa.accepts(text), is_inside(range, std::strtod(text.c_str(), nullptr)))
            << text << ": " << name(range);
      }
    }
    EXPECT_EQ(dfa.accepts("-0.25"), is_inside(range, -0.25)) << name(range);
    for (const char* text : {"", "-", ".5", "1.", "-0", "-0.0", "01.5", "1e1"})
      EXPECT_FALSE(dfa.accepts(text)) << text << ": " << name(range);
  }
}

TEST(NumberRange, HasNoWordsIfItIsEmpty) {
  const NumberRange empty{.least = 5, .most = 4, .above_least = false, .below_most = false};
  EXPECT_THROW(Dfa(*integers_in(empty), "the range"), Error);
  EXPECT_THROW(Dfa(*numbers_in(empty), "the range"), Error);
  const NumberRange open{.least = 5, .most = 5, .above_least = true, .below_most = false};
  EXPECT_THROW(Dfa(*numbers_in(open), "the range"), Error);
}

TEST(NumberRange, LargeLimitsHaveManyDigits) {
  const Dfa dfa(*integers_in({.least = 999'999'999'999'999,
                              .most = 1'000'000'000'000'000,
                              .above_least = false,
                              .below_most = false}),
                "the range");
  EXPECT_TRUE(dfa.accepts("999999999999999"));
  EXPECT_TRUE(dfa.accepts("1000000000000000"));
  EXPECT_FALSE(dfa.accepts("1000000000000001"));
  EXPECT_FALSE(dfa.accepts("99999999999999"));
}

}  // namespace
}  // namespace perigee
