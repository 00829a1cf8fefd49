#include "text/unicode.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <set>
#include <utility>

namespace perigee {
namespace {

constexpr char32_t kEnd = 0x110000;

const std::set<char32_t> kWhiteSpace = {
    0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
    0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};

std::size_t count(std::uint8_t bit) {
  std::size_t found = 0;
  for (char32_t c = 0; c < kEnd; ++c) found += (char_class(c) & bit) != 0;
  return found;
}

// The numbers are those of tiktoken 0.14.0, whose engine was asked about every code point.
TEST(Unicode, ClassesAreAsLargeAsTiktokens) {
  EXPECT_EQ(count(kCharHan), 99030U);
  EXPECT_EQ(count(kCharUpper), 42584U);
  EXPECT_EQ(count(kCharLower), 42953U);
  EXPECT_EQ(count(kCharLetter), 141028U);
  EXPECT_EQ(count(kCharNumber), 1911U);
  EXPECT_EQ(count(kCharSpace), 25U);
  EXPECT_EQ(count(kCharNewline), 2U);
  EXPECT_EQ(count(kCharMultiByte), 0U);
}

TEST(Unicode, TellsCategoriesApart) {
  const std::pair<char32_t, int> expected[] = {
      {U'A', kCharUpper | kCharLetter},
      {U'z', kCharLower | kCharLetter},
      {U'ǅ', kCharUpper | kCharLetter},                // Lt
      {U'ʰ', kCharUpper | kCharLower | kCharLetter},   // Lm
      {U'한', kCharUpper | kCharLower | kCharLetter},  // Lo
      {U'ª', kCharUpper | kCharLower | kCharLetter},   // Lo in Latin-1
      {0x0301, kCharUpper | kCharLower},               // Mn
      {0x0BBE, kCharUpper | kCharLower},               // Mc
      {0x20DD, kCharUpper | kCharLower},               // Me
      {0xE0100, kCharUpper | kCharLower},              // Mn in plane 14
      {U'7', kCharNumber},                             // Nd
      {U'Ⅳ', kCharNumber},                             // Nl
      {U'½', kCharNumber},                             // No
      {U'好', kCharHan | kCharLetter},                 // Lo
      {U'々', kCharHan | kCharLetter},                 // Lm
      {U'〇', kCharHan | kCharNumber},                 // Nl
      {0x2E80, kCharHan},                              // So
      {0x16FF0, kCharHan},                             // Mc
      {U'\r', kCharSpace | kCharNewline},
      {U'\n', kCharSpace | kCharNewline},
      {U'\t', kCharSpace},
      {U'_', 0},
      {U'。', 0},
      {U'😀', 0},
      {0x200B, 0},  // looks like white space
      {0xFEFF, 0},
      {0x0378, 0},  // unassigned
      {0xD800, 0},  // a surrogate
      {0xE000, 0},  // private use
      {kEnd, 0},
      {0xFFFFFFFF, 0},
  };
  for (const auto& [code_point, bits] : expected)
    EXPECT_EQ(char_class(code_point), bits) << testing::PrintToString(code_point);
}

// Script=Han of Unicode 15.1 and later, first and last of each range; not what Script_Extensions adds.
TEST(Unicode, KnowsTheHanRangesAndTheirNeighbours) {
  const std::pair<char32_t, char32_t> ranges[] = {
      {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},   {0x3007, 0x3007},
      {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},
      {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3}, {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739},
      {0x2B740, 0x2B81D}, {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
      {0x30000, 0x3134A}, {0x31350, 0x323AF}};
  for (const auto& [first, last] : ranges) {
    EXPECT_FALSE(char_class(first - 1) & kCharHan) << testing::PrintToString(first - 1);
    EXPECT_TRUE(char_class(first) & kCharHan) << testing::PrintToString(first);
    EXPECT_TRUE(char_class(last) & kCharHan) << testing::PrintToString(last);
    EXPECT_FALSE(char_class(last + 1) & kCharHan) << testing::PrintToString(last + 1);
  }
}

TEST(Unicode, WhiteSpaceIsExactlyTheUnicodeProperty) {
  for (char32_t c = 0; c < kEnd; ++c) {
    ASSERT_EQ((char_class(c) & kCharSpace) != 0, kWhiteSpace.contains(c)) << testing::PrintToString(c);
  }
}

TEST(Unicode, PythonSpaceAddsTheInformationSeparators) {
  std::set<char32_t> expected = kWhiteSpace;
  expected.insert({0x1C, 0x1D, 0x1E, 0x1F});
  for (char32_t c = 0; c < kEnd; ++c)
    ASSERT_EQ(is_python_space(c), expected.contains(c)) << testing::PrintToString(c);
  EXPECT_FALSE(is_python_space(kEnd));
}

TEST(Unicode, ClassesOfBytesAreThoseOfTheirCharacters) {
  for (int byte = 0; byte < 256; ++byte) {
    const int expected = byte < 0x80 ? char_class(static_cast<char32_t>(byte)) : kCharMultiByte;
    EXPECT_EQ(byte_class(static_cast<char>(byte)), expected) << byte;
  }
}

}  // namespace
}  // namespace perigee
