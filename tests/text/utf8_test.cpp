#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "text/piece_vectors.h"

namespace perigee {
namespace {

using test::bytes_of_hex;
using test::piece_vectors;

// "�" n times.
std::string replacements(std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += "\xEF\xBF\xBD";
  return out;
}

std::string pushed(std::initializer_list<std::string_view> parts) {
  Utf8Stream stream;
  std::string out;
  for (const std::string_view part : parts) stream.push(part, out);
  return out;
}

TEST(Utf8, DecodesAndWritesTheFirstAndLastOfEachLength) {
  const std::pair<char32_t, std::string_view> characters[] = {{0x00, {"\0", 1}},
                                                              {0x7F, "\x7F"},
                                                              {0x80, "\xC2\x80"},
                                                              {0x7FF, "\xDF\xBF"},
                                                              {0x800, "\xE0\xA0\x80"},
                                                              {0xFFF, "\xE0\xBF\xBF"},
                                                              {0x1000, "\xE1\x80\x80"},
                                                              {0xD7FF, "\xED\x9F\xBF"},
                                                              {0xE000, "\xEE\x80\x80"},
                                                              {0xFFFF, "\xEF\xBF\xBF"},
                                                              {0x10000, "\xF0\x90\x80\x80"},
                                                              {0x3FFFF, "\xF0\xBF\xBF\xBF"},
                                                              {0x40000, "\xF1\x80\x80\x80"},
                                                              {0xFFFFF, "\xF3\xBF\xBF\xBF"},
                                                              {0x100000, "\xF4\x80\x80\x80"},
                                                              {0x10FFFF, "\xF4\x8F\xBF\xBF"}};
  for (const auto& [value, bytes] : characters) {
    const CodePoint alone = decode_utf8(bytes, 0);
    EXPECT_TRUE(alone.valid);
    EXPECT_EQ(alone.value, value);
    EXPECT_EQ(alone.bytes, bytes.size());
    const std::string within = "é" + std::string(bytes) + "é";
    EXPECT_EQ(decode_utf8(within, 2).value, value);
    std::string written = "x";
    append_utf8(written, value);
    EXPECT_EQ(written, "x" + std::string(bytes));
  }
}

TEST(Utf8, ReadsBackEveryCodePointItWrites) {
  for (char32_t value = 0; value < 0x110000; ++value) {
    if (value == 0xD800) value = 0xE000;
    std::string bytes;
    append_utf8(bytes, value);
    const CodePoint read = decode_utf8(bytes, 0);
    ASSERT_TRUE(read.valid && read.value == value && read.bytes == bytes.size())
        << testing::PrintToString(value);
  }
}

TEST(Utf8, WritesAReplacementForWhatIsNoCharacter) {
  for (const std::uint32_t value : {0xD800U, 0xDBFFU, 0xDC00U, 0xDFFFU, 0x110000U, 0xFFFFFFFFU}) {
    std::string out;
    append_utf8(out, value);
    EXPECT_EQ(out, replacements(1)) << testing::PrintToString(value);
  }
}

// Overlong forms, surrogates, values above U+10FFFF, bytes that never occur, sequences that break off: the
// length of the maximal invalid part.
TEST(Utf8, RefusesInvalidParts) {
  const std::pair<std::string_view, unsigned> parts[] = {
      {"\xC0\x80", 1},
      {"\xC1\xBF", 1},
      {"\xE0\x80\x80", 1},
      {"\xE0\x9F\xBF", 1},
      {"\xF0\x80\x80\x80", 1},
      {"\xF0\x8F\xBF\xBF", 1},
      {"\xED\xA0\x80", 1},
      {"\xED\xBF\xBF", 1},
      {"\xF4\x90\x80\x80", 1},
      {"\xF5\x80\x80\x80", 1},
      {"\xFF", 1},
      {"\x80", 1},
      {"\xBF\xBF", 1},
      {"\xC3", 1},
      {"\xC3\x41", 1},
      {"\xC3\xC3", 1},
      {"\xE2", 1},
      {"\xE2\x82", 2},
      {"\xE2\x82\x41", 2},
      {"\xE2\x82\xE2\x82\xAC", 2},
      {"\xE0\xA0", 2},
      {"\xED\x9F", 2},
      {"\xF0\x9F", 2},
      {"\xF0\x9F\x98", 3},
      {"\xF0\x9F\x98\x41", 3},
      {"\xF4\x8F\xBF", 3},
      {"\xF0\x9F\xC3\xA9", 2},
  };
  for (const auto& [bytes, length] : parts) {
    const CodePoint part = decode_utf8(bytes, 0);
    EXPECT_FALSE(part.valid) << testing::PrintToString(bytes);
    EXPECT_EQ(part.value, kReplacementCharacter);
    EXPECT_EQ(part.bytes, length) << testing::PrintToString(bytes);
    EXPECT_FALSE(is_valid_utf8("plenty of text before " + std::string(bytes)));
  }
}

// Tables 3-8 to 3-11 of the Unicode core specification.
TEST(Utf8, ReplacesMaximalPartsAsTheStandardShows) {
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), replacements(8) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), replacements(8) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            replacements(5) + "A" + replacements(2) + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), replacements(4) + "A");
}

TEST(Utf8, ReplacesAsPythonDoes) {
  for (const auto& sample : piece_vectors().at("repaired")) {
    const std::string bytes = bytes_of_hex(sample[0]);
    const std::string expected = sample[1];
    EXPECT_EQ(replace_invalid_utf8(bytes), expected) << sample[0];
    EXPECT_EQ(is_valid_utf8(bytes), expected == bytes) << sample[0];
    const std::string far = std::string(37, '.') + bytes + std::string(21, '.');
    EXPECT_EQ(is_valid_utf8(far), expected == bytes) << sample[0];
  }
}

TEST(Utf8, LeavesValidTextAlone) {
  for (const std::string_view text :
       {"", "a", "eight by", "plain ASCII of more than eight bytes", "é", "ASCII, then 好 and 😀"}) {
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(replace_invalid_utf8(text), text);
  }
}

TEST(Utf8Stream, GivesTheSameForEverySplit) {
  for (const auto& sample : piece_vectors().at("repaired")) {
    const std::string bytes = bytes_of_hex(sample[0]);
    const std::string_view all = bytes;
    const std::string expected = sample[2];
    for (std::size_t i = 0; i <= all.size(); ++i) {
      for (std::size_t k = i; k <= all.size(); ++k) {
        ASSERT_EQ(pushed({all.substr(0, i), all.substr(i, k - i), all.substr(k)}), expected)
            << sample[0] << " split at " << i << " and " << k;
      }
    }
    Utf8Stream stream;
    std::string out;
    for (const char byte : bytes) stream.push({&byte, 1}, out);
    ASSERT_EQ(out, expected) << sample[0] << " byte by byte";
  }
}

TEST(Utf8Stream, HoldsBackAnIncompleteCharacter) {
  Utf8Stream stream;
  std::string out;
  stream.push("a\xF0\x9F", out);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(stream.held_bytes(), 2U);
  stream.push("\x98", out);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(stream.held_bytes(), 3U);
  stream.push("", out);
  EXPECT_EQ(stream.held_bytes(), 3U);
  stream.push("\x80!", out);
  EXPECT_EQ(out, "a😀!");
  EXPECT_EQ(stream.held_bytes(), 0U);
}

TEST(Utf8Stream, NeverHoldsWhatCannotBecomeACharacter) {
  for (const std::string_view hopeless :
       {"\xFF", "\x80", "\xC0", "\xF5", "\xE0\x80", "\xED\xA0", "\xF4\x90"}) {
    Utf8Stream stream;
    std::string out;
    stream.push(hopeless, out);
    EXPECT_EQ(out, replacements(hopeless.size()));
    EXPECT_EQ(stream.held_bytes(), 0U);
  }
}

TEST(Utf8Stream, ForgetsTheTailOfAReplyThatWasCut) {
  Utf8Stream stream;
  std::string out;
  stream.push("cut \xE5\xA5", out);
  stream.drop_tail();
  EXPECT_EQ(stream.held_bytes(), 0U);
  stream.push("é", out);
  EXPECT_EQ(out, "cut é");
}

}  // namespace
}  // namespace perigee
