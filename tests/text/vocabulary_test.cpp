// Vocabulary files: what is accepted, what is refused and with which words, and where special tokens come
// from.
#include "text/vocabulary.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "fuzz/text_checks.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "support/tiktoken_text.h"
#include "support/vocabularies.h"

namespace perigee {
namespace {

using test::base64;
using test::tiktoken_text;
using test::with_single_bytes;

Vocabulary parsed(const std::string& file) {
  return Vocabulary::parse(file, k3_special_slots(), "v.model");
}

// The 256 single bytes and then, from line 257 on, `lines`.
std::string ending_with(const std::string& lines) {
  return tiktoken_text(with_single_bytes({})) + lines;
}

TEST(VocabularyFile, GivesIdsInTheOrderOfItsLines) {
  const Vocabulary vocabulary =
      parsed(tiktoken_text(with_single_bytes({"ab", "你", std::string("\0\xFF", 2)})));
  EXPECT_EQ(vocabulary.ordinary_count(), 259u);
  EXPECT_EQ(vocabulary.size(), 259u + 256u);
  EXPECT_EQ(vocabulary.bytes(256), "ab");
  EXPECT_EQ(vocabulary.bytes(257), "你");
  EXPECT_EQ(vocabulary.bytes(258), std::string_view("\0\xFF", 2));
  EXPECT_EQ(vocabulary.ordinary("你"), 257u);
  EXPECT_EQ(vocabulary.ordinary("A"), 65u);
  EXPECT_EQ(vocabulary.ordinary("abc"), std::nullopt);
  EXPECT_EQ(vocabulary.ordinary(""), std::nullopt);
  EXPECT_EQ(vocabulary.ordinary("你好你好"), std::nullopt);
  EXPECT_EQ(vocabulary.longest_token(), 3u);
}

TEST(VocabularyFile, MayLackTheLastNewline) {
  EXPECT_EQ(parsed(ending_with("YWI= 256")).bytes(256), "ab");
}

TEST(VocabularyFile, HoldsTokensOf256BytesAndMore) {
  const std::string spaces(256, ' '), letters(5000, 'x');
  const Vocabulary vocabulary = parsed(tiktoken_text(with_single_bytes({spaces, letters})));
  EXPECT_EQ(vocabulary.ordinary(spaces), 256u);
  EXPECT_EQ(vocabulary.ordinary(letters), 257u);
}

struct Refused {
  const char* name;
  std::string lines;  // from line 257 on
  const char* words;
};

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.name;
}

class VocabularyFileRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(VocabularyFileRefuses, NamingFileAndLine) {
  EXPECT_ERROR(parsed(ending_with(GetParam().lines)), ErrorCode::kCorrupt, GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(
    Lines, VocabularyFileRefuses,
    ::testing::Values(
        Refused{"gap", "YWI= 257\n", "v.model: line 257: its rank must be 256"},
        Refused{"repeated_rank", "YWI= 256\nYWM= 256\n", "v.model: line 258: its rank must be 257"},
        Refused{"repeated_token", "YWI= 256\nYWI= 257\n", "v.model: line 258: repeats the token"},
        Refused{"repeated_byte", "QQ== 256\n", "v.model: line 257: repeats the token"},
        Refused{"negative_rank", "YWI= -1\n", "line 257: its rank must be 256"},
        Refused{"huge_rank", "YWI= 99999999999999999999999\n", "line 257: its rank must be 256"},
        Refused{"leading_zero", "YWI= 0256\n", "line 257: its rank must be 256"},
        Refused{"hexadecimal_rank", "YWI= 0x100\n", "line 257: its rank must be 256"},
        Refused{"no_rank", "YWI= \n", "line 257: its rank must be 256"},
        Refused{"two_spaces", "YWI=  256\n", "line 257: its rank must be 256"},
        Refused{"space_at_the_end", "YWI= 256 \n", "line 257: its rank must be 256"},
        Refused{"rank_cut_off", "YWI= 256\nYWM= 25", "line 258: its rank must be 257"},
        Refused{"cut_off_in_base64", "YWI= 256\nYWM", "line 258: is not"},
        Refused{"tab", "YWI=\t256\n", "line 257: is not"},
        Refused{"empty_line", "YWI= 256\n\nYWM= 257\n", "line 258: is not"},
        Refused{"empty_last_line", "YWI= 256\n\n", "line 258: is not"},
        Refused{"text_at_the_end", "YWI= 256\nthe end\n", "line 258: its rank must be 257"},
        Refused{"empty_token", " 256\n", "line 257: has a token that is empty or not base64"},
        Refused{"only_padding", "==== 256\n", "not base64"}, Refused{"no_padding", "YWI 256\n", "not base64"},
        Refused{"padding_inside", "YQ==YQ== 256\n", "not base64"},
        Refused{"three_paddings", "Y=== 256\n", "not base64"},
        Refused{"bits_behind_the_end", "YWJ= 256\n", "not base64"},
        Refused{"url_alphabet", "_-8= 256\n", "not base64"},
        Refused{"zero_byte", std::string("YW\0= 256\n", 9), "not base64"},
        Refused{"byte_above_127", "YW\xC3\xA9 256\n", "not base64"},
        Refused{"carriage_return", "YWI= 256\r\n", "line 257: ends in a carriage return"},
        Refused{"giant_token", base64(std::string(65537 + 3, 'x')) + " 256\n", "more than 65536 bytes"}),
    [](const auto& tested) { return tested.param.name; });

TEST(VocabularyFile, RefusesToLackASingleByte) {
  std::vector<std::string> tokens = with_single_bytes({"ab"});
  tokens[0xE4] = "longer";
  EXPECT_ERROR(parsed(tiktoken_text(tokens)), ErrorCode::kCorrupt, "no token for the single byte 0xE4");
  EXPECT_ERROR(parsed(""), ErrorCode::kCorrupt, "v.model: there is no token for the single byte 0x00");
}

TEST(VocabularyFile, MaybeDamagedAnywhereIsAcceptedOrRefused) {
  const std::string file = ending_with("YWI= 256\nYWJh 257\n");
  for (std::size_t length = file.size() - 40; length <= file.size(); ++length) {
    for (const char wrong : {'\n', ' ', '=', '0', '\xFF'}) {
      std::string damaged = file.substr(0, length) + wrong;
      fuzz::check_vocabulary({reinterpret_cast<const std::uint8_t*>(damaged.data()), damaged.size()});
    }
  }
}

TEST(SpecialSlotsOfK3, AreThoseOfTheReleasedConfig) {
  const Vocabulary vocabulary = parsed(ending_with(""));
  EXPECT_EQ(vocabulary.special("[BOS]"), 256u);
  EXPECT_EQ(vocabulary.special("<|end_of_msg|>"), 258u);
  EXPECT_EQ(vocabulary.special("<|media_pad|>"), 277u);
  EXPECT_EQ(vocabulary.special("<osagent_mode>"), 321u);
  EXPECT_EQ(vocabulary.special("[PAD]"), 511u);
  EXPECT_EQ(vocabulary.special("<|reserved_token_264|>"), 264u);
  EXPECT_EQ(vocabulary.special("<|reserved_token_511|>"), std::nullopt) << "the slot has a name of its own";
  EXPECT_EQ(vocabulary.special("<|open|"), std::nullopt);
  EXPECT_EQ(vocabulary.bytes(264), "<|reserved_token_264|>");
  EXPECT_EQ(vocabulary.bytes(512), "");
  EXPECT_FALSE(vocabulary.is_special(255));
  EXPECT_TRUE(vocabulary.is_special(256));
  EXPECT_TRUE(vocabulary.is_special(511));
  EXPECT_FALSE(vocabulary.is_special(512));
}

TEST(SpecialSlots, AreRefusedWhenTheyContradictEachOther) {
  const std::string file = ending_with("");
  const auto parse = [&](const SpecialSlots& slots) { return Vocabulary::parse(file, slots, "v"); };
  EXPECT_ERROR(parse({2, {{2, "[X]"}}}), ErrorCode::kCorrupt, "\"[X]\" is at slot 2 of only 2");
  EXPECT_ERROR(parse({2, {{1, ""}}}), ErrorCode::kCorrupt, "slot 1 has an empty text");
  EXPECT_ERROR(parse({2, {{1, "[X]"}, {1, "[Y]"}}}), ErrorCode::kCorrupt, "two names, \"[X]\" and \"[Y]\"");
  EXPECT_ERROR(parse({2, {{0, "[X]"}, {1, "[X]"}}}), ErrorCode::kCorrupt, "\"[X]\" has two ids");
  EXPECT_ERROR(parse({2, {{0, "<|reserved_token_257|>"}}}), ErrorCode::kCorrupt, "has two ids");
  EXPECT_EQ(parse({0, {}}).size(), 256u);
}

class VocabularyFolder : public ::testing::Test {
 protected:
  VocabularyFolder() { write_file_atomically(folder_ / "tiktoken.model", ending_with("YWI= 256\n")); }
  void write_config(const std::string& json) {
    write_file_atomically(folder_ / "tokenizer_config.json", json);
  }
  Vocabulary load() const { return Vocabulary::load(folder_.path()); }

  test::TempDir folder_;
};

TEST_F(VocabularyFolder, WithoutConfigHasTheSlotsOfK3) {
  EXPECT_EQ(load().special("<|open|>"), 257u + 3);
  EXPECT_EQ(Vocabulary::load(folder_ / "tiktoken.model").special("<|open|>"), 257u + 3);
}

TEST_F(VocabularyFolder, TakesSpecialTokensFromTheConfigBesideTheFile) {
  write_config(
      R"({"added_tokens_decoder":{"258":{"content":"<one>","special":true},"512":{"content":"[LAST]"}}})");
  for (const auto& path : {folder_.path(), folder_ / "tiktoken.model"}) {
    const Vocabulary vocabulary = Vocabulary::load(path);
    EXPECT_EQ(vocabulary.special("<one>"), 258u);
    EXPECT_EQ(vocabulary.special("[LAST]"), 512u);
    EXPECT_EQ(vocabulary.special("<|open|>"), std::nullopt);
    EXPECT_EQ(vocabulary.special("<|reserved_token_257|>"), 257u);
    EXPECT_EQ(vocabulary.size(), 257u + 256u);
  }
}

TEST_F(VocabularyFolder, RefusesAConfigThatNamesOtherIds) {
  for (const char* id : {"256", "513", "-1", "x", "", "258x", "99999999999999999999"}) {
    write_config(R"({"added_tokens_decoder":{")" + std::string(id) + R"(":{"content":"<one>"}}})");
    EXPECT_ERROR(load(), ErrorCode::kCorrupt, "is not an id of a special slot, 257 to 512");
  }
}

TEST_F(VocabularyFolder, RefusesAConfigWithoutNames) {
  for (const char* json :
       {"{}", "[]", "3", R"({"added_tokens_decoder":[]})", R"({"added_tokens_decoder":null})"}) {
    write_config(json);
    EXPECT_ERROR(load(), ErrorCode::kCorrupt,
                 "tokenizer_config.json: there is no object \"added_tokens_decoder\"");
  }
  for (const char* json :
       {R"({"added_tokens_decoder":{"258":{}}})", R"({"added_tokens_decoder":{"258":"<one>"}})",
        R"({"added_tokens_decoder":{"258":{"content":7}}})"}) {
    write_config(json);
    EXPECT_ERROR(load(), ErrorCode::kCorrupt, "\"258\" has no string \"content\"");
  }
  write_config("{\"added_tokens_decoder\":");
  EXPECT_ERROR(load(), ErrorCode::kCorrupt, "tokenizer_config.json: line 1");
}

TEST_F(VocabularyFolder, RefusesAConfigThatNamesASlotTwice) {
  write_config(R"({"added_tokens_decoder":{"258":{"content":"<one>"},"258":{"content":"<two>"}}})");
  EXPECT_ERROR(load(), ErrorCode::kCorrupt, "two names");
}

TEST(Vocabulary, IsNotFoundWhereThereIsNone) {
  const test::TempDir folder;
  EXPECT_ERROR(Vocabulary::load(folder.path()), ErrorCode::kNotFound, "tiktoken.model");
  EXPECT_ERROR(Vocabulary::load(folder / "missing"), ErrorCode::kNotFound, "missing");
}

TEST(ReleasedVocabulary, HasTheReleasedSizesAndNames) {
  if (test::k3_tokenizer() == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  const Vocabulary& vocabulary = test::k3_tokenizer()->vocabulary();
  EXPECT_EQ(vocabulary.ordinary_count(), 163584u);
  EXPECT_EQ(vocabulary.size(), 163840u);
  EXPECT_EQ(vocabulary.longest_token(), 256u);
  EXPECT_EQ(vocabulary.bytes(0), "!");
  EXPECT_EQ(vocabulary.bytes(163583), "自主性");
  EXPECT_EQ(vocabulary.special("<|end_of_msg|>"), 163586u);
  EXPECT_EQ(vocabulary.special("<|media_pad|>"), 163605u);
  EXPECT_EQ(vocabulary.special("<|reserved_token_163592|>"), 163592u);
}

}  // namespace
}  // namespace perigee
