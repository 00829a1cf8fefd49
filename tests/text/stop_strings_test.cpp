// Stop strings against a plain search over the whole text, however the text is cut.
#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace perigee {
namespace {

struct Found {
  std::string out;
  std::optional<std::string> matched;
  bool operator==(const Found&) const = default;
};

// The definition: the match that starts first; of those that start there the shortest.
Found found_in_whole(const std::vector<std::string>& strings, const std::string& text) {
  std::size_t best = std::string::npos;
  std::optional<std::string> matched;
  for (const std::string& string : strings) {
    const std::size_t at = text.find(string);
    if (at == std::string::npos || at > best) continue;
    if (at < best || string.size() < matched->size()) matched = string;
    best = at;
  }
  return {text.substr(0, best), matched};
}

// Pieces of `longest` bytes at most.
Found found_in_pieces(const std::vector<std::string>& strings, const std::string& text, unsigned longest,
                      std::mt19937& random) {
  StopStrings stop(strings);
  Found found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(text.size() - at, 1 + random() % longest);
    stop.push(std::string_view(text).substr(at, size), found.out);
    at += size;
  }
  stop.end_text(found.out);
  found.matched = stop.matched();
  return found;
}

std::string random_text(std::mt19937& random, std::size_t longest, unsigned letters) {
  std::string text(random() % (longest + 1), ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % letters);
  return text;
}

TEST(StopStrings, FindWhatAPlainSearchFinds) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const unsigned letters = 1 + random() % 3;
    std::vector<std::string> strings;
    for (std::size_t k = 1 + random() % 5; k > 0; --k)
      strings.push_back(random_text(random, 6, letters) + static_cast<char>('a' + random() % letters));
    const std::string text = random_text(random, 40, letters);
    ASSERT_EQ(found_in_pieces(strings, text, 1 + random() % 8, random), found_in_whole(strings, text))
        << text;
  }
}

std::string pushed(StopStrings& stop, std::string_view text) {
  std::string out;
  stop.push(text, out);
  return out;
}

TEST(StopStrings, HoldBackTheLongestBeginningOfAMatch) {
  StopStrings stop(std::vector<std::string>{"abab", "bc"});
  EXPECT_EQ(pushed(stop, "xaba"), "x");  // aba may begin abab
  EXPECT_EQ(pushed(stop, "c"), "abac");
  EXPECT_EQ(pushed(stop, "ab"), "");
  EXPECT_EQ(pushed(stop, "x"), "abx");
}

TEST(StopStrings, WaitForAMatchThatStartsEarlier) {
  StopStrings stop(std::vector<std::string>{"abcd", "bc"});
  EXPECT_EQ(pushed(stop, "xabc"), "x");
  EXPECT_EQ(stop.matched(), std::nullopt);
  EXPECT_EQ(pushed(stop, "e"), "a");
  EXPECT_EQ(stop.matched(), "bc");
}

TEST(StopStrings, PreferAMatchThatStartsEarlier) {
  StopStrings stop(std::vector<std::string>{"abcd", "bc"});
  EXPECT_EQ(pushed(stop, "xabcd"), "x");
  EXPECT_EQ(stop.matched(), "abcd");
}

TEST(StopStrings, TakeTheWaitingMatchWhenTheTextEnds) {
  StopStrings stop(std::vector<std::string>{"abcd", "bc"});
  std::string out;
  stop.push("abc", out);
  stop.end_text(out);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(stop.matched(), "bc");
}

TEST(StopStrings, DoNotMatchAcrossTheEndOfAText) {
  StopStrings stop(std::vector<std::string>{"ab"});
  std::string out;
  stop.push("xa", out);
  EXPECT_EQ(out, "x");
  stop.end_text(out);
  stop.push("b", out);
  stop.end_text(out);
  EXPECT_EQ(out, "xab");
  EXPECT_EQ(stop.matched(), std::nullopt);
}

TEST(StopStrings, AreSilentAfterAMatch) {
  StopStrings stop(std::vector<std::string>{"ab"});
  EXPECT_EQ(pushed(stop, "1ab2"), "1");
  EXPECT_EQ(pushed(stop, "3"), "");
  std::string out;
  stop.end_text(out);
  EXPECT_EQ(out, "");
}

TEST(StopStrings, LeaveOutWhatCanNeverAppearAsText) {
  EXPECT_TRUE(StopStrings(std::vector<std::string>{"", "\xA9"}).empty());
  EXPECT_FALSE(StopStrings(std::vector<std::string>{"", "\xC3\xA9"}).empty());
}

TEST(StopStrings, NeverCutACharacter) {
  StopStrings stop(std::vector<std::string>{"é!"});
  EXPECT_EQ(pushed(stop, "aé"), "a");
  EXPECT_EQ(pushed(stop, "è"), "éè");  // the same first byte
}

// 1,000 strings of 1,000 bytes that all but match at every place: quadratic search would take minutes.
TEST(StopStrings, AreLinearInTheText) {
  std::vector<std::string> strings;
  for (int i = 0; i < 200; ++i) strings.push_back(std::string(1'000 + i, 'a') + "b");
  StopStrings stop(strings);
  const std::string text(2'000'000, 'a');
  const std::string out = pushed(stop, text);
  EXPECT_EQ(out.size(), text.size() - 1'199);
  EXPECT_EQ(pushed(stop, "b"), "");
  EXPECT_EQ(stop.matched(), strings.back());
}

}  // namespace
}  // namespace perigee
