// The committed vocabulary of our own. Expected ids come from tiktoken with the same file; that the file is
// what its tool makes is checked by tools/make_nano_vocabulary_test.py.
#include <gtest/gtest.h>

#include <array>

#include "support/paths.h"
#include "text/chat_tokens.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace perigee {
namespace {

std::filesystem::path nano_folder() {
  return test::data_folder() / "../../models/nano";
}

class NanoVocabulary : public ::testing::Test {
 protected:
  const Tokenizer tokenizer_{Vocabulary::load(nano_folder())};
  const Vocabulary& vocabulary_ = tokenizer_.vocabulary();
};

TEST_F(NanoVocabulary, HasFourThousandAndNinetySixIds) {
  EXPECT_EQ(vocabulary_.ordinary_count(), 3840u);
  EXPECT_EQ(vocabulary_.size(), 4096u);
  EXPECT_EQ(vocabulary_.specials().size(), 256u);
}

TEST_F(NanoVocabulary, BeginsWithTheSingleBytesInTheReleasedOrder) {
  struct Range {
    unsigned first, last;
    TokenId id;
  };
  constexpr std::array<Range, 6> kRanges = {{{0x21, 0x7E, 0},
                                             {0xA1, 0xAC, 94},
                                             {0xAE, 0xFF, 106},
                                             {0x00, 0x20, 188},
                                             {0x7F, 0xA0, 221},
                                             {0xAD, 0xAD, 255}}};
  for (const Range& range : kRanges) {
    for (unsigned byte = range.first; byte <= range.last; ++byte) {
      EXPECT_EQ(vocabulary_.bytes(range.id + byte - range.first), std::string(1, static_cast<char>(byte)));
    }
  }
}

TEST_F(NanoVocabulary, NamesItsSpecialTokensAtTheReleasedOffsets) {
  const ChatTokens tokens = find_chat_tokens(vocabulary_);
  EXPECT_EQ(tokens.end_of_text, 3840u + 1);
  EXPECT_EQ(tokens.end_of_message, 3840u + 2);
  EXPECT_EQ(tokens.open, 3840u + 3);
  EXPECT_EQ(tokens.close, 3840u + 4);
  EXPECT_EQ(tokens.sep, 3840u + 5);
  EXPECT_EQ(tokens.media_begin, 3840u + 18);
  EXPECT_EQ(tokens.media_end, 3840u + 20);
  EXPECT_EQ(vocabulary_.special("[BOS]"), 3840u);
  EXPECT_EQ(vocabulary_.special("[UNK]"), 4094u);
  EXPECT_EQ(vocabulary_.special("[PAD]"), 4095u);
  EXPECT_EQ(vocabulary_.special("<|reserved_token_3850|>"), 3850u);
}

TEST_F(NanoVocabulary, HasATokenForEveryWordOfTheChatFormat) {
  for (const char* word :
       {"message",  "system",  "user",     "assistant", "tool",    "think",  "response", "tools",
        "call",     "json",    "string",   "number",    "boolean", "null",   "object",   "array",
        "argument", " role",   " name",    " type",     " tool",   " index", " key",     "=\"",
        "thinking", "-effort", "-declare", "-choice",   "-format", "low",    "high",     "max"}) {
    EXPECT_TRUE(vocabulary_.ordinary(word)) << word;
  }
}

TEST_F(NanoVocabulary, HasNoTokenOfTwoDigits) {
  for (TokenId id = 256; id < vocabulary_.ordinary_count(); ++id) {
    EXPECT_EQ(vocabulary_.bytes(id).find_first_of("0123456789"), std::string_view::npos)
        << vocabulary_.bytes(id);
  }
}

// Tokens that end inside a character are no text of their own; the tool checks those.
TEST_F(NanoVocabulary, ReachesEveryTokenThatIsText) {
  for (TokenId id = 0; id < vocabulary_.ordinary_count(); ++id) {
    if (!is_valid_utf8(vocabulary_.bytes(id))) continue;
    EXPECT_EQ(tokenizer_.encode_plain(vocabulary_.bytes(id)), std::vector<TokenId>{id}) << id;
  }
}

TEST_F(NanoVocabulary, GivesTheIdsThatTiktokenGives) {
  const std::vector<std::pair<std::string, std::vector<TokenId>>> cases = {
      {"Hello, world!", {1075, 11, 2949, 0}},
      {"What is 17 + 25?", {731, 287, 220, 16, 22, 751, 220, 17, 20, 30}},
      {R"({"city": "Paris"})", {376, 544, 293, 397, 2371, 434}},
      {"The weather in Berlin is sunny.", {316, 617, 264, 1627, 287, 1444, 13}},
      {"\u4f60\u597d,\u4e16\u754c \U0001F44B\n\tcode  \u00e9",
       {2329, 3153, 11, 1018, 244, 163, 243, 234, 2015, 239, 233, 198, 197, 3056, 220, 220, 2325}}};
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(tokenizer_.encode_plain(text), ids) << text;
    EXPECT_EQ(tokenizer_.decode(ids), text);
  }
}

}  // namespace
}  // namespace perigee
