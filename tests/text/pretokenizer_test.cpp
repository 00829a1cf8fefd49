#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_vectors.h"

namespace perigee {
namespace {

using Pieces = std::vector<std::string>;

Pieces cut(std::string_view text) {
  Pieces pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    if (end <= at || end > text.size()) {
      ADD_FAILURE() << "piece from " << at << " to " << end << " of " << text.size();
      break;
    }
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

std::size_t number_of_pieces(std::string_view text) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size(); at = piece_end(text, at)) ++number;
  return number;
}

std::string repeated(std::string_view unit, std::size_t times) {
  std::string out;
  out.reserve(unit.size() * times);
  for (std::size_t i = 0; i < times; ++i) out += unit;
  return out;
}

TEST(Pieces, HanRunsStandAlone) {
  EXPECT_EQ(cut("AB你好c"), (Pieces{"AB", "你好", "c"}));
  EXPECT_EQ(cut(" 你"), (Pieces{" ", "你"}));
  EXPECT_EQ(cut("日本々〆"), (Pieces{"日本々", "〆"}));
  EXPECT_EQ(cut("好\u0301a"), (Pieces{"好", "\u0301a"}));
  EXPECT_EQ(cut("〇1〇2"), (Pieces{"〇", "1〇2"}));      // a number as well, but not at a beginning
  EXPECT_EQ(cut("⺀!⺀a"), (Pieces{"⺀", "!⺀", "a"}));  // a symbol as well
}

TEST(Pieces, WordsTakeOneCharacterBefore) {
  EXPECT_EQ(cut("a word"), (Pieces{"a", " word"}));
  EXPECT_EQ(cut("\tcode"), (Pieces{"\tcode"}));
  EXPECT_EQ(cut("_x"), (Pieces{"_x"}));
  EXPECT_EQ(cut("a\u0085b"), (Pieces{"a", "\u0085b"}));
  EXPECT_EQ(cut("a\nb\rc"), (Pieces{"a", "\n", "b", "\r", "c"}));
  EXPECT_EQ(cut("__x"), (Pieces{"__", "x"}));
  EXPECT_EQ(cut("😀Ab"), (Pieces{"😀Ab"}));
  EXPECT_EQ(cut("  x"), (Pieces{" ", " x"}));
}

TEST(Pieces, WordsEndBeforeTheNextCapital) {
  EXPECT_EQ(cut("fooBarBAZqux"), (Pieces{"foo", "Bar", "BAZqux"}));
  EXPECT_EQ(cut(" HTTP"), (Pieces{" HTTP"}));
  EXPECT_EQ(cut("ǅa"), (Pieces{"ǅa"}));
  EXPECT_EQ(cut("한국어"), (Pieces{"한국어"}));
}

TEST(Pieces, AnyAsciiButSmallLettersEndsARunOfSmallLetters) {
  for (std::size_t length = 1; length <= 17; ++length) {
    const std::string run(length, 'q');
    for (char c = 0; c >= 0 && c < 0x7F; ++c) {
      const std::string text = run + c + "xxxxxxxxxxxxxxxx";
      const std::size_t expected = c >= 'a' && c <= 'z' ? text.size() : length;
      EXPECT_EQ(piece_end(text, 0), expected) << length << " and byte " << int{c};
    }
    EXPECT_EQ(piece_end(run + "éxxxxxxxxxxxxxxxx", 0), length + 18);
    EXPECT_EQ(piece_end(run + "Éxxxxxxxxxxxxxxxx", 0), length);
  }
}

// A letter without case ends the word when only capitals follow: they are given back to find a lower-case
// part.
TEST(Pieces, CapitalsBehindALetterWithoutCaseAreGivenBack) {
  EXPECT_EQ(cut("ʰAB"), (Pieces{"ʰ", "AB"}));
  EXPECT_EQ(cut("AʰB"), (Pieces{"Aʰ", "B"}));
  EXPECT_EQ(cut("한AB1"), (Pieces{"한", "AB", "1"}));
  EXPECT_EQ(cut("한ABc"), (Pieces{"한ABc"}));
  EXPECT_EQ(cut("\u0301AB"), (Pieces{"\u0301", "AB"}));
  EXPECT_EQ(cut(" \u0301AB"), (Pieces{" \u0301", "AB"}));
}

TEST(Pieces, ContractionsStayWithTheirWord) {
  EXPECT_EQ(cut("I'd don't WE'RE i'Ve I'm'll"), (Pieces{"I'd", " don't", " WE'RE", " i'Ve", " I'm", "'ll"}));
  EXPECT_EQ(cut("it'\u017F"), (Pieces{"it'\u017F"}));  // the long s folds to s
  EXPECT_EQ(cut("a'sx"), (Pieces{"a's", "x"}));
  EXPECT_EQ(cut("a'l a'r a'x a'"), (Pieces{"a", "'l", " a", "'r", " a", "'x", " a", "'"}));
  EXPECT_EQ(cut("a\u2019s"), (Pieces{"a", "\u2019s"}));
  EXPECT_EQ(cut("\u0301's"), (Pieces{"\u0301's"}));
  EXPECT_EQ(cut("1's 好's"), (Pieces{"1", "'s", " ", "好", "'s"}));
}

TEST(Pieces, NumbersComeInThrees) {
  EXPECT_EQ(cut("１２３４"), (Pieces{"１２３", "４"}));
  EXPECT_EQ(cut("1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(cut(" 12"), (Pieces{" ", "12"}));
  EXPECT_EQ(cut("Ⅳ½²x"), (Pieces{"Ⅳ½²", "x"}));
}

TEST(Pieces, SymbolsTakeASpaceBeforeAndLineEndsBehind) {
  EXPECT_EQ(cut("a ==\r\n\n b"), (Pieces{"a", " ==\r\n\n", " b"}));
  EXPECT_EQ(cut("\t=="), (Pieces{"\t", "=="}));
  EXPECT_EQ(cut("  =="), (Pieces{" ", " =="}));
  EXPECT_EQ(cut(".\u0301."), (Pieces{".\u0301", "."}));
  EXPECT_EQ(cut("..\u0301."), (Pieces{"..\u0301."}));
  EXPECT_EQ(cut("<|open|>"), (Pieces{"<|", "open", "|>"}));
  EXPECT_EQ(cut("\u200B\uFEFF\x1C"), (Pieces{"\u200B\uFEFF\x1C"}));
}

TEST(Pieces, WhiteSpaceEndsAtItsLastLineEndOrBeforeItsLastCharacter) {
  EXPECT_EQ(cut("a \n \r\n  b"), (Pieces{"a", " \n \r\n", " ", " b"}));
  EXPECT_EQ(cut("a   1"), (Pieces{"a", "  ", " ", "1"}));
  EXPECT_EQ(cut("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(cut("\u3000\u3000好"), (Pieces{"\u3000", "\u3000", "好"}));
}

// A special token follows the slice; the white space before it is at an end.
TEST(Pieces, TheEndOfTheViewIsTheEndOfTheText) {
  const std::string_view text = "  x";
  EXPECT_EQ(piece_end(text, 0), 1U);
  EXPECT_EQ(piece_end(text.substr(0, 2), 0), 2U);
}

TEST(Pieces, AreThoseOfTiktoken) {
  const auto& cases = test::piece_vectors().at("pieces");
  ASSERT_GT(cases.size(), 3000U);
  for (const auto& expected : cases) {
    std::string text;
    for (const auto& piece : expected) text += piece.get<std::string>();
    ASSERT_EQ(cut(text), expected.get<Pieces>()) << expected;
  }
}

TEST(Pieces, AnInvalidByteIsASymbol) {
  EXPECT_EQ(cut("\xFF"), (Pieces{"\xFF"}));
  EXPECT_EQ(cut("\xE5\xA5"), (Pieces{"\xE5\xA5"}));
  EXPECT_EQ(cut("a\xFFz"), (Pieces{"a", "\xFFz"}));
  EXPECT_EQ(cut("a\xE5\xA5z"), (Pieces{"a", "\xE5\xA5", "z"}));
  EXPECT_EQ(cut("é\xC3"), (Pieces{"é", "\xC3"}));
  EXPECT_EQ(cut("x \xC0\xAF\n1"), (Pieces{"x", " \xC0\xAF\n", "1"}));
}

TEST(Pieces, CoverAnyBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(1 + random() % 24, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    std::string joined;
    for (const std::string& piece : cut(bytes)) joined += piece;
    ASSERT_EQ(joined, bytes);
  }
}

// Ten megabytes of what makes a matcher that gives back or looks ahead quadratic; it would not come back.
TEST(Pieces, TakeLinearTimeOnAnyRuns) {
  struct Case {
    std::string_view unit;
    std::string_view last;
    std::size_t pieces_per_unit;
    std::size_t more_pieces;
  };
  const Case cases[] = {
      {"a", "", 0, 1},      {"A", "", 0, 1},        {" ", "", 0, 1},    {" ", "x", 0, 2},  {"\n", " x", 0, 2},
      {" \n", "  x", 0, 3}, {"\u0301", "", 0, 1},   {"<|", "", 0, 1},   {" <", "", 1, 0},  {"한", "", 0, 1},
      {"好", "", 0, 1},     {"한", "AA", 0, 2},     {"ʰA", "", 0, 2},   {"a1", "", 2, 0},  {"aA", "", 1, 1},
      {"123", "", 1, 0},    {"\xE5\xA5", "", 0, 1}, {"'s's", "", 1, 0}, {"a\n", "", 2, 0},
  };
  for (const auto& [unit, last, pieces_per_unit, more_pieces] : cases) {
    const std::size_t units = 10'000'000 / unit.size();
    const std::string text = repeated(unit, units) + std::string(last);
    EXPECT_EQ(number_of_pieces(text), units * pieces_per_unit + more_pieces) << testing::PrintToString(unit);
  }
}

// Each piece that ends before the run it looked at: what was read twice must not be read more often.
TEST(Pieces, TakeLinearTimeAfterGivingBack) {
  const std::string marked = "\u0301" + std::string(10'000'000, 'A');
  EXPECT_EQ(number_of_pieces(marked), 2U);
  const std::string marks = repeated("\u0301" + std::string(1000, 'A') + "1", 10'000);
  EXPECT_EQ(number_of_pieces(marks), 30'000U);
  const std::string indents = repeated("\n" + std::string(1000, ' ') + "x", 10'000);
  EXPECT_EQ(number_of_pieces(indents), 30'000U);
}

}  // namespace
}  // namespace perigee
