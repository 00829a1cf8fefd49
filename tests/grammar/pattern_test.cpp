#include "grammar/pattern.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace perigee {
namespace {

struct PatternCase {
  const char* pattern;
  std::vector<std::string> found;  // written strings, without their quotes
  std::vector<std::string> not_found;
};

// What ECMA-262 says, for each written form.
const std::vector<PatternCase>& cases() {
  static const std::vector<PatternCase> all = {
      {"^abc$", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"abc", {"abc", "xabc", "abcx", "aabcc"}, {"", "ab", "a-bc"}},
      {"^abc", {"abc", "abcx"}, {"xabc"}},
      {"abc$", {"abc", "xabc"}, {"abcx"}},
      {"^$", {""}, {"a"}},
      {"", {"", "anything"}, {}},
      {"^[a-c]+$", {"a", "cab"}, {"", "d", "aB"}},
      {"^[^a-c]$", {"d", "é", "漢", "-"}, {"a", "b", ""}},
      {"^[-a]$", {"-", "a"}, {"b"}},
      {"^[a-]$", {"-", "a"}, {"b"}},
      {"^[\\]x]$", {"]", "x"}, {"["}},
      {"^a?b*c+$", {"c", "abc", "bbcc"}, {"", "ab", "aabc"}},
      {"^(foo|ba[rz])$", {"foo", "bar", "baz"}, {"ba", "foobar", "bat"}},
      {"^(?:a|b){2}$", {"ab", "ba", "aa"}, {"a", "aba"}},
      {"^(?<year>\\d{4})-\\d{2}$", {"2026-11"}, {"26-11", "2026-1", "2026-111"}},
      {"^x{2,3}$", {"xx", "xxx"}, {"x", "xxxx"}},
      {"^x{2,}$", {"xx", "xxxxx"}, {"x"}},
      {"^(ab*?)+$", {"a", "abb", "aab"}, {"", "b"}},
      {"^a|b$", {"ax", "a", "b", "xb"}, {"xa", "bx"}},
      {"^\\w+\\s\\w+$", {"a b_1"}, {"ab", "a  b"}},
      {"^\\S\\D\\W$", {"ab-", "1a "}, {"a1-", " a-"}},
      {"^.$", {"a", "é", "\xF0\x9F\x98\x80"}, {"", "ab"}},
      {"^a\\.b\\/c$", {"a.b/c"}, {"axb/c"}},
      {"^\\u00e9\\x41$", {"éA"}, {"eA"}},
      {"^\\uD83D\\uDE00$", {"\xF0\x9F\x98\x80"}, {"x"}},
      {"^[\\u4e00-\\u9fff]+$", {"漢字"}, {"a", "漢a"}},
      {"^(a|a)*b$", {"b", "aaaab"}, {"a"}},
      {"^]}$", {"]}"}, {"]"}},
  };
  return all;
}

TEST(Pattern, FindsWhatTheStandardSaysItFinds) {
  for (const PatternCase& one : cases()) {
    const Dfa dfa(*read_pattern(one.pattern, TextForm::kRaw, "the test"), "the test");
    for (const std::string& text : one.found) EXPECT_TRUE(dfa.accepts(text)) << one.pattern << " in " << text;
    for (const std::string& text : one.not_found)
      EXPECT_FALSE(dfa.accepts(text)) << one.pattern << " in " << text;
  }
}

TEST(Pattern, StandsBetweenQuotesInJson) {
  const Dfa dfa(*read_pattern("^a+$", TextForm::kJson, "the test"), "the test");
  EXPECT_TRUE(dfa.accepts("\"aa\""));
  EXPECT_FALSE(dfa.accepts("aa"));
  EXPECT_FALSE(dfa.accepts("\"aa"));
}

TEST(Pattern, EscapesInJsonWhatMustBeEscaped) {
  const Dfa dfa(*read_pattern("^[\"\\\\\\n\\x01a]$", TextForm::kJson, "the test"), "the test");
  for (const char* text : {"\"a\"", "\"\\\"\"", "\"\\\\\"", "\"\\n\"", "\"\\u0001\""})
    EXPECT_TRUE(dfa.accepts(text)) << text;
  for (const char* text : {"\"\n\"", "\"\\\"", "\"\"\"", "\"b\""}) EXPECT_FALSE(dfa.accepts(text)) << text;
}

TEST(Pattern, RefusesWhatIsNotRegular) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"(?=a)", "looks around"},
      {"(?<!a)b", "looks around"},
      {"(a)\\1", "escape"},
      {"\\bword", "escape"},
      {"\\p{L}", "escape"},
      {"a^b", "anchor"},
      {"(^a)", "anchor"},
      {"a$b", "anchor"},
      {"(a$)", "anchor"},
      {"*a", "repetition"},
      {"a**", "repetition"},
      {"a{3,2}", "repetition"},
      {"a{99999999999}", "repetition"},
      {"a{", "repetition"},
      {"(a", "( without )"},
      {"a)", ") without ("},
      {"[a", "["},
      {"[b-a]", "range"},
      {"[]", "no characters"},
      {"\\u12", "early end"},
      {"\\uD83D", "surrogate"},
      {"a\\", "early end"},
      {"[\\d-z]", "range"},
      {"\\u{1F600}", "escape"},
  };
  for (const auto& [pattern, words] : refused) {
    SCOPED_TRACE(pattern);
    EXPECT_ERROR(read_pattern(pattern, TextForm::kRaw, "the schema at #/x"), ErrorCode::kUnsupported, words);
    EXPECT_ERROR(read_pattern(pattern, TextForm::kRaw, "the schema at #/x"), ErrorCode::kUnsupported, "#/x");
  }
}

TEST(Pattern, RefusesWhatIsTooLargeInsteadOfTrying) {
  for (const char* pattern :
       {"((((a{1000}){1000}){1000}){1000}){1000}", "((){1000}){1000}", "^(a|b)*a(a|b){30}$", "^.{9000}$"}) {
    SCOPED_TRACE(pattern);
    EXPECT_ERROR(Dfa(*read_pattern(pattern, TextForm::kRaw, "the test"), "the test"), ErrorCode::kUnsupported,
                 "too large");
  }
}

TEST(Dfa, CountsCharactersWhereLengthsAreLimited) {
  const Dfa pattern(*read_pattern("^(é|ab)*$", TextForm::kRaw, "the test"), "the test");
  const Dfa limited(pattern, 2, 3, "the test");
  for (const char* text : {"éé", "ab", "abé", "ééé"}) EXPECT_TRUE(limited.accepts(text)) << text;
  for (const char* text : {"", "é", "éééé", "abab", "abéé"}) EXPECT_FALSE(limited.accepts(text)) << text;
  EXPECT_ERROR(Dfa(Dfa(*regex_character(regex_text("a")), "one"), 2, 5, "the test"), ErrorCode::kUnsupported,
               "cannot be met");
}

TEST(Dfa, TakesAwayWords) {
  const Dfa others =
      Dfa::difference(Dfa(*plain_json_string(), "any"), Dfa(*regex_text("\"ab\""), "one"), "both");
  for (const char* text : {"\"\"", "\"a\"", "\"abc\"", "\"b\""}) EXPECT_TRUE(others.accepts(text)) << text;
  EXPECT_FALSE(others.accepts("\"ab\""));
}

TEST(Regex, CodePointsAreTheirUtf8AndNothingElse) {
  const Dfa dfa(*regex_code_points(0x7F, 0x10FFFF), "characters");
  for (const char* text : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(dfa.accepts(text));
  for (const char* text : {"\x7E", "\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC2"})
    EXPECT_FALSE(dfa.accepts(text));
}

}  // namespace
}  // namespace perigee
