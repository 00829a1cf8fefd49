// Text to ids and back. Expected ids were made by tiktoken (tests/data/text).
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/hash.h"
#include "fuzz/text_checks.h"
#include "support/tiktoken_text.h"
#include "support/vocabularies.h"
#include "text/json_files.h"

namespace perigee {
namespace {

using Ids = std::vector<TokenId>;

std::string repeated(const std::string& unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text;
}

bool has_special(const Tokenizer& tokenizer, const Ids& ids) {
  return std::ranges::any_of(ids, [&](TokenId id) { return tokenizer.vocabulary().is_special(id); });
}

void check_cases(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  for (const nlohmann::json& expected : cases) {
    const std::string text = expected.at("text");
    const Ids ids = expected.at("specials") ? tokenizer.encode_markup(text) : tokenizer.encode_plain(text);
    EXPECT_EQ(ids, expected.at("ids").get<Ids>()) << expected;
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
}

TEST(TokenizerWithTheReleasedVocabulary, EncodesAsReleased) {
  if (test::k3_tokenizer() == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  check_cases(*test::k3_tokenizer(), test::read_text_data("tokenizer.json", "cases"));
  check_cases(*test::k3_tokenizer(), test::read_text_data("tiktoken_vectors.json", "released"));
}

TEST(TokenizerWithTheReleasedVocabulary, EncodesLongTextAsReleased) {
  if (test::k3_tokenizer() == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  for (const nlohmann::json& expected : test::read_text_data("tokenizer.json", "long")) {
    const std::string text =
        repeated(expected.at("repeat"), expected.at("times")) + expected.at("suffix").get<std::string>();
    const Ids ids = test::k3_tokenizer()->encode_plain(text);
    EXPECT_EQ(ids.size(), expected.at("count").get<std::size_t>());
    const std::string json = nlohmann::json(ids).dump();
    EXPECT_EQ(sha256_hex(std::as_bytes(std::span(json))), expected.at("sha256_of_json").get<std::string>());
  }
}

TEST(TokenizerWithTheReleasedVocabulary, NeverFindsASpecialTokenInPlainText) {
  if (test::k3_tokenizer() == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  const Tokenizer& tokenizer = *test::k3_tokenizer();
  EXPECT_EQ(tokenizer.encode_plain("<|open|>"), (Ids{27, 91, 4454, 91, 29}));
  EXPECT_EQ(tokenizer.encode_plain(" <|open|>"), (Ids{22652, 4454, 91, 29}));
}

TEST(Tokenizer, EncodesAsTiktokenWithASmallVocabulary) {
  check_cases(test::nano_tokenizer(), test::read_text_data("tiktoken_vectors.json", "nano"));
}

TEST(Tokenizer, NeverFindsASpecialTokenInPlainText) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  for (const SpecialToken& special : tokenizer.vocabulary().specials()) {
    for (const std::string& text : {special.text, "a " + special.text + special.text + "\n"}) {
      const Ids ids = tokenizer.encode_plain(text);
      EXPECT_FALSE(has_special(tokenizer, ids)) << text;
      EXPECT_EQ(tokenizer.decode_bytes(ids), text);
    }
  }
}

TEST(Tokenizer, FindsEverySpecialTokenInMarkup) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  for (const SpecialToken& special : tokenizer.vocabulary().specials()) {
    EXPECT_EQ(tokenizer.encode_markup(special.text), Ids{special.id});
    Ids expected =
        tokenizer.encode_plain("a  ");  // two spaces: the pattern must see the end of the slice here
    expected.push_back(special.id);
    tokenizer.append_plain("  <|", expected);
    expected.push_back(special.id);
    EXPECT_EQ(tokenizer.encode_markup("a  " + special.text + "  <|" + special.text), expected);
  }
}

TEST(Tokenizer, TakesTheLongestSpecialTokenOfTheLeftmost) {
  const Tokenizer tokenizer(
      Vocabulary::parse(test::tiktoken_text(test::with_single_bytes({})),
                        SpecialSlots{4, {{0, "<a>"}, {1, "<a>b"}, {2, "<"}, {3, "a>bcd"}}}, "v"));
  EXPECT_EQ(tokenizer.encode_markup("<a>bcd"), (Ids{257, 'c', 'd'}));
  EXPECT_EQ(tokenizer.encode_markup("<a><<a"), (Ids{256, 258, 258, 'a'}));
  EXPECT_EQ(tokenizer.encode_markup("xa>bcd"), (Ids{'x', 259}));
  EXPECT_EQ(tokenizer.encode_markup("a>bc"), (Ids{'a', '>', 'b', 'c'}));
}

TEST(Tokenizer, BreaksASpecialTokenThatLiesAcrossACut) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  const TokenId open = *tokenizer.vocabulary().special("<|open|>");
  EXPECT_EQ(tokenizer.encode_markup(repeated("x", 24'992) + "<|open|>").back(), open);
  EXPECT_FALSE(has_special(tokenizer, tokenizer.encode_markup(repeated("x", 24'993) + "<|open|>")));
  EXPECT_EQ(tokenizer.encode_markup(repeated("x", 25'000) + "<|open|>").back(), open);
}

TEST(Tokenizer, EncodesNothingAsNothing) {
  EXPECT_EQ(test::nano_tokenizer().encode_plain(""), Ids{});
  EXPECT_EQ(test::nano_tokenizer().encode_markup(""), Ids{});
  EXPECT_EQ(test::nano_tokenizer().encode_plain_parallel("", 4), Ids{});
  EXPECT_EQ(test::nano_tokenizer().decode({}), "");
}

TEST(Tokenizer, AppendsBehindWhatIsThere) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  Ids ids = {7};
  tokenizer.append_plain("xqzt", ids);
  Ids expected = tokenizer.encode_plain("xqzt");
  expected.insert(expected.begin(), 7);
  EXPECT_EQ(ids, expected);
}

TEST(Tokenizer, GivesBackAnyBytes) {
  std::mt19937 dice(3);
  for (const unsigned range : {256u, 4u, 2u}) {
    for (int round = 0; round < 300; ++round) {
      std::string bytes(dice() % 400, '\0');
      for (char& byte : bytes) byte = static_cast<char>(range == 256 ? dice() : "\xF0\x9F <"[dice() % range]);
      fuzz::check_encoder({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      EXPECT_EQ(test::nano_tokenizer().decode_bytes(test::nano_tokenizer().encode_plain(bytes)), bytes);
    }
  }
}

TEST(Tokenizer, EncodesBytesThatAreNotUtf8OneByOne) {
  const Tokenizer tokenizer(
      Vocabulary::parse(test::tiktoken_text(test::with_single_bytes({})), SpecialSlots{}, "v"));
  EXPECT_EQ(tokenizer.encode_plain("a\xFF\xC3z\xE4\xBD"), (Ids{'a', 0xFF, 0xC3, 'z', 0xE4, 0xBD}));
}

TEST(Tokenizer, DecodesUnknownIdsToNothing) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  EXPECT_EQ(tokenizer.decode(Ids{4096, kNoToken, *tokenizer.vocabulary().special("[EOS]"), 70'000}), "[EOS]");
}

TEST(Tokenizer, DecodesHalfCharactersToOneReplacementEach) {
  const Tokenizer tokenizer(
      Vocabulary::parse(test::tiktoken_text(test::with_single_bytes({})), SpecialSlots{}, "v"));
  const Ids ids = {0xE4, 0xBD, 'a', 0xE4, 0xBD, 0xA0, 0xFF};
  EXPECT_EQ(tokenizer.decode(ids), "\uFFFDa你\uFFFD");
  EXPECT_EQ(tokenizer.decode_bytes(ids),
            "\xE4\xBD"
            "a\xE4\xBD\xA0\xFF");
}

TEST(Tokenizer, CanBeMoved) {
  Tokenizer first(
      Vocabulary::parse(test::tiktoken_text(test::with_single_bytes({"ab"})), k3_special_slots(), "v"));
  Tokenizer second(std::move(first));
  first = std::move(second);
  EXPECT_EQ(first.encode_markup("ab<|open|>"), (Ids{256, 260}));
}

// Words, lines, long runs and characters of all lengths, several slices long.
std::string mixed_text(unsigned seed, std::size_t words) {
  constexpr const char* kWords[] = {"the ",  "call",     "\n",     "  ",   "你好", "é",      "123", "\xFF",
                                    "don't", "<|open|>", "\u3000", "{\"a", "\":",  "\r\n\n", "🇫🇷",  "Index"};
  std::mt19937 dice(seed);
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    text += kWords[dice() % std::size(kWords)];
    if (dice() % 20'000 == 0) text += repeated(kWords[dice() % std::size(kWords)], 30'000);
  }
  return text;
}

TEST(Tokenizer, FindsTheSameIdsWithAnyNumberOfThreads) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  for (const std::size_t words : {10u, 5'000u, 60'000u, 300'000u}) {
    const std::string text = mixed_text(static_cast<unsigned>(words), words);
    const Ids expected = tokenizer.encode_plain(text);
    for (const unsigned threads : {0u, 1u, 2u, 3u, 7u, 16u})
      EXPECT_TRUE(tokenizer.encode_plain_parallel(text, threads) == expected) << words << ", " << threads;
  }
}

TEST(Tokenizer, TakesHostileTextInItsStride) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  for (const char* unit :
       {"a", " ", "\n", "<|", "<|reserved_token_", "\u0301", "你", "=", "\xFF", "'", "a\u0301", "\xF0"}) {
    const std::string text = repeated(unit, 200'000);
    EXPECT_TRUE(tokenizer.decode_bytes(tokenizer.encode_plain(text)) == text);
    EXPECT_TRUE(tokenizer.decode_bytes(tokenizer.encode_markup(text)) == text);
  }
}

}  // namespace
}  // namespace perigee
