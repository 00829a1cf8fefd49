// A parity check that cannot fail is worthless: every row is made to fail by one wrong value, and what it
// reports is that value's place. The expected values are written by hand for a vocabulary of bytes.
#include "proof/text_parity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "proof/byte_vocabulary.h"
#include "proof/small_goldens.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace perigee {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

std::set<std::string> all_rows(const TextParity& parity) {
  std::set<std::string> rows;
  for (const ParityRow& row : parity.rows) rows.insert(row.what);
  return rows;
}

std::vector<std::string> differing_rows(const TextParity& parity) {
  std::vector<std::string> rows;
  for (const ParityRow& row : parity.rows) {
    if (row.equal != row.cases) rows.push_back(row.what);
  }
  return rows;
}

TEST(TextParity, FindsNoDifferenceInRightValues) {
  const test::SmallGoldens goldens;
  const TextParity parity = check_text_parity(goldens.write(), test::byte_tokenizer());
  EXPECT_TRUE(parity.equal());
  EXPECT_FALSE(parity.other_vocabulary);
  EXPECT_THAT(parity.missing, IsEmpty());
  EXPECT_THAT(differing_rows(parity), IsEmpty());
  for (const ParityRow& row : parity.rows) {
    EXPECT_GT(row.cases, 0U) << row.what;
    EXPECT_FALSE(row.first) << row.what;
  }
}

// One value made wrong: where, its new value, the rows that must differ, what the first of them must say.
struct Mistake {
  const char* file;
  const char* pointer;
  nlohmann::ordered_json value;
  std::vector<std::string> rows;
  std::string which, expected, found;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.file << mistake.pointer;
}

std::vector<Mistake> mistakes() {
  return {
      {"tokenizer.json",
       "/cases/0/ids/1",
       99,
       {"tokenizer: ids", "tokenizer: ids by threads", "tokenizer: decoded"},
       "cases[0], id 1 of 4",
       "97 99 195 169",
       "97 98 195 169"},
      {"tokenizer.json",
       "/cases/1/specials",
       false,
       {"tokenizer: ids", "tokenizer: ids by threads"},
       "cases[1], id 0 of 1",
       "261",
       "60 124 115 101 112 124 62"},
      {"tokenizer.json",
       "/long/0/count",
       8,
       {"tokenizer: long texts", "tokenizer: long texts by threads"},
       "long[0]",
       "8 ids",
       "7 ids"},
      {"tokenizer.json",
       "/long/0/suffix",
       "d",
       {"tokenizer: long texts", "tokenizer: long texts by threads"},
       "long[0]",
       "sha256 297eb57d",
       "sha256 "},
      {"prompts.json",
       "/cases/0/text",
       "<|open|>message role=\"user\"<|sep|>gone",
       {"prompts: text"},
       "go, byte 36 of 38",
       "<|sep|>gone",
       "<|sep|>go<|close|>"},
      {"prompts.json", "/cases/0/ids/2", 102, {"prompts: ids"}, "go, id 2 of ", "259 109 102", "259 109 101"},
      {"prompts.json",
       "/cases/1/input/image_prompts/0",
       "<|media_begin|>image 6x5<|media_content|><|media_pad|><|media_end|>",
       {"prompts: text", "prompts: ids"},
       "image, byte ",
       "image 6x4",
       "image 6x5"},
      {"prompts.json",
       "/cases/1/input/image_prompts",
       nlohmann::ordered_json::array(),
       {"prompts: text", "prompts: ids"},
       "image",
       "no error",
       "error: "},
      {"chat/tool_codec.json",
       "/declare/0/json",
       "[]",
       {"tools: JSON"},
       "one, byte 1 of 2",
       "[]",
       "[{\"function\""},
      {"chat/tool_codec.json",
       "/declare/0/text",
       "",
       {"tools declared: text"},
       "one, byte 0 of 0",
       "",
       "<|open|>"},
      {"chat/tool_codec.json",
       "/declare/0/ids",
       nlohmann::ordered_json::array({1}),
       {"tools declared: ids"},
       "one, id 0 of 1",
       "1",
       "259"},
      {"chat/tool_codec.json",
       "/declare/0/as_system_message/text",
       "x",
       {"tools in a system message: text"},
       "one, byte 0 of 1",
       "x",
       "<|open|>"},
      {"chat/tool_codec.json",
       "/declare/0/as_system_message/ids/1",
       1,
       {"tools in a system message: ids"},
       "one, id 1 of ",
       "259 1",
       "259 109"},
      {"chat/tool_codec.json",
       "/calls/0/text",
       "x",
       {"tool calls: text"},
       "number, byte 0 of 1",
       "x",
       "<|open|>tools"},
      {"chat/tool_codec.json",
       "/calls/0/tool_calls",
       R"([{"id":"c","function":{"name":"f","arguments":"{\"n\":13}"}}])",
       {"tool calls: text", "tool calls: ids"},
       "number, byte ",
       "12",
       "13"},
      {"chat/tool_codec.json",
       "/calls/0/decoded_arguments/0",
       R"({"n":1.2e1})",
       {"tool calls: read back"},
       "number, byte ",
       "1.2e1",
       "12"},
      {"chat/tool_codec.json",
       "/calls/0/encodes_back_the_same",
       false,
       {"tool calls: read back and written again"},
       "number",
       "other ids",
       "the same ids"},
      {"chat/tool_codec.json",
       "/results/0/text",
       "x",
       {"tool results: text"},
       "named, byte 0 of 1",
       "x",
       "<|open|>"},
      {"chat/tool_codec.json",
       "/results/0/ids",
       nlohmann::ordered_json::array(),
       {"tool results: ids"},
       "named, id 0 of 0",
       "",
       "259"},
      {"chat/tool_codec.json",
       "/results/0/tool_frames/0",
       "x",
       {"tool results: order"},
       "named, byte 0 of 2",
       "x",
       "<|open|>"},
      {"chat/tool_codec.json",
       "/system_messages/1/text",
       "x",
       {"request's system messages: text"},
       "text, byte 0 of 1",
       "x",
       ""},
      {"chat/tool_codec.json",
       "/system_messages/0/ids/0",
       1,
       {"request's system messages: ids"},
       "required, id 0 of ",
       "1 ",
       "259 "},
      {"chat/tool_codec.json",
       "/rejected/0/tool_calls",
       R"([{"id":"c","function":{"name":"f","arguments":"{}"}}])",
       {"calls to be refused"},
       "no_name",
       "refused",
       "<|open|>message"},
      {"chat/reply_parser.json",
       "/cases/0/expected/content",
       "B",
       {"replies: message", "replies: stream"},
       "answer",
       "content: \"B\"",
       "content: \"B\xc3\xa9\""},
      {"chat/reply_parser.json",
       "/cases/1/expected/tool_calls/0/id",
       "f_1",
       {"replies: message", "replies: stream"},
       "call",
       "call f_1 f",
       "call f_0 f"},
      {"chat/reply_parser.json",
       "/cases/0/expected/finish_reason",
       "length",
       {"replies: message", "replies: stream"},
       "answer",
       "finish_reason: length",
       "finish_reason: stop"},
      {"chat/reply_parser.json",
       "/cases/2/notes",
       nlohmann::ordered_json::array(),
       {"replies: notes"},
       "cut",
       "",
       "call_cut"},
      {"chat/reply_parser.json",
       "/cases/2/unfinished_call/name",
       "h",
       {"replies: stream"},
       "cut",
       "finish_reason",
       "call g_1 g"},
      {"chat/reply_parser.json",
       "/start_state/0/start",
       "response",
       {"replies: channel that a prompt opens"},
       "start_state[0]",
       "response",
       "think"},
      {"chat/reply_stream.json",
       "/cases/0/streamed/content",
       "B",
       {"streams: one id at a time", "streams: all at once", "streams: every cut into two",
        "streams: random groups", "streams: equal the message"},
       "answer",
       "content: \"B\"",
       "content: \"B\xc3\xa9\""},
      {"chat/reply_stream.json",
       "/cases/0/equals_whole_reply",
       false,
       {"streams: equal the message"},
       "answer",
       "another message",
       "reasoning_content"},
      {"chat/reply_stream.json",
       "/cases/1/marker_text_in_output",
       false,
       {"streams: all at once", "streams: every cut into two", "streams: random groups"},
       "spelled",
       "reasoning_content",
       "a delta that holds marker text"},
  };
}

class WrongValue : public ::testing::TestWithParam<Mistake> {};

TEST_P(WrongValue, IsFoundInItsRowsAndNamed) {
  const Mistake& mistake = GetParam();
  test::SmallGoldens goldens;
  goldens.files[mistake.file].at(nlohmann::ordered_json::json_pointer(mistake.pointer)) = mistake.value;
  const TextParity parity = check_text_parity(goldens.write(), test::byte_tokenizer());
  EXPECT_FALSE(parity.equal());
  EXPECT_FALSE(parity.other_vocabulary);
  EXPECT_THAT(differing_rows(parity), UnorderedElementsAreArray(mistake.rows));
  const auto is_first = [&](const ParityRow& row) { return row.what == mistake.rows.front(); };
  const auto row = std::ranges::find_if(parity.rows, is_first);
  ASSERT_NE(row, parity.rows.end());
  ASSERT_TRUE(row->first);
  EXPECT_THAT(row->first->which, HasSubstr(mistake.which));
  EXPECT_THAT(row->first->expected, HasSubstr(mistake.expected));
  EXPECT_THAT(row->first->found, HasSubstr(mistake.found));
}

INSTANTIATE_TEST_SUITE_P(EveryKind, WrongValue, ::testing::ValuesIn(mistakes()));

TEST(TextParity, HasNoRowThatCannotFail) {
  std::set<std::string> failed;
  for (const Mistake& mistake : mistakes()) failed.insert(mistake.rows.begin(), mistake.rows.end());
  const test::SmallGoldens goldens;
  EXPECT_EQ(failed, all_rows(check_text_parity(goldens.write(), test::byte_tokenizer())));
}

TEST(TextParity, ReportsFilesThatAreNotThere) {
  test::SmallGoldens goldens;
  goldens.files.erase("prompts.json");
  goldens.files.erase("chat/reply_stream.json");
  const TextParity parity = check_text_parity(goldens.write(), test::byte_tokenizer());
  EXPECT_THAT(parity.missing, ElementsAre("prompts.json", "chat/reply_stream.json"));
  EXPECT_TRUE(parity.equal());
}

TEST(TextParity, IsNotEqualWithoutACase) {
  test::SmallGoldens goldens;
  goldens.files = {{"tokenizer.json",
                    {{"cases", nlohmann::ordered_json::array()}, {"long", nlohmann::ordered_json::array()}}}};
  EXPECT_FALSE(check_text_parity(goldens.write(), test::byte_tokenizer()).equal());
}

TEST(TextParity, RefusesAFolderWithoutExpectedValues) {
  test::SmallGoldens goldens;
  goldens.files.clear();
  EXPECT_ERROR(check_text_parity(goldens.write(), test::byte_tokenizer()), ErrorCode::kNotFound,
               "tokenizer.json");
}

TEST(TextParity, NoticesIdsOfAnotherVocabulary) {
  const test::SmallGoldens goldens;
  const TextParity parity = check_text_parity(goldens.write(), test::byte_tokenizer(/*reversed=*/true));
  EXPECT_TRUE(parity.other_vocabulary);
  EXPECT_FALSE(parity.equal());
}

TEST(TextParity, NamesTheFieldOfAMalformedFile) {
  const auto error_after = [](const char* file, const char* pointer, const nlohmann::ordered_json& value,
                              const char* words) {
    test::SmallGoldens goldens;
    goldens.files[file].at(nlohmann::ordered_json::json_pointer(pointer)) = value;
    EXPECT_ERROR(check_text_parity(goldens.write(), test::byte_tokenizer()), ErrorCode::kCorrupt, words);
  };
  error_after("tokenizer.json", "/cases/0/ids", "x",
              "tokenizer.json: cases[0]: \"ids\" must be of kind array");
  error_after("tokenizer.json", "/cases/0/ids/2", -1, "cases[0]: ids[2] must be a whole number");
  error_after("tokenizer.json", "/cases/0/ids/2", 1.5, "cases[0]: ids[2] must be a whole number");
  error_after("tokenizer.json", "/cases/0/ids/2", 4294967296, "cases[0]: ids[2] must be a whole number");
  error_after("tokenizer.json", "/cases/0", 1, "cases[0] must be an object");
  error_after("tokenizer.json", "/long/0/times", 1e9, "long[0]");
  error_after("tokenizer.json", "/long/0/times", 4000000000, "the repeated text must have");
  error_after("tokenizer.json", "/long/0/repeat", "", "the repeated text must have");
  error_after("chat/reply_parser.json", "/cases/1/start", "nowhere", "cases[1] (call): \"start\" must be");
  error_after("chat/reply_parser.json", "/cases/1/ended_by", "", "cases[1] (call): \"ended_by\" must be");
  error_after("chat/reply_parser.json", "/cases/2/notes/0", 1, "notes[0] must be a string");
}

TEST(TextParity, NamesAMissingField) {
  test::SmallGoldens goldens;
  goldens.files["prompts.json"]["cases"][1].erase("ids");
  EXPECT_ERROR(check_text_parity(goldens.write(), test::byte_tokenizer()), ErrorCode::kCorrupt,
               "cases[1] (image) has no \"ids\"");
}

TEST(TextParity, NamesTheLineOfWhatIsNoJson) {
  const test::SmallGoldens goldens;
  const std::filesystem::path& folder = goldens.write();
  std::ofstream(folder / "prompts.json") << "{\n \"cases\": [}";
  EXPECT_ERROR(check_text_parity(folder, test::byte_tokenizer()), ErrorCode::kCorrupt, "line 2");
}

// The ids of the committed values need the released vocabulary; their texts do not.
TEST(TextParity, OfTheCommittedValuesTextsAreEqualWithAnyVocabulary) {
  const Tokenizer nano(Vocabulary::load(test::data_folder() / "../../models/nano"));
  const TextParity parity = check_text_parity(test::data_folder() / "text", nano);
  EXPECT_TRUE(parity.other_vocabulary);
  const std::set<std::string> texts = {
      "prompts: text",      "tools: JSON",        "tools declared: text", "tools in a system message: text",
      "tool calls: text",   "tool results: text", "tool results: order",  "request's system messages: text",
      "calls to be refused"};
  std::size_t seen = 0;
  for (const ParityRow& row : parity.rows) {
    if (!texts.contains(row.what)) continue;
    ++seen;
    EXPECT_GT(row.cases, 0U) << row.what;
    EXPECT_EQ(row.equal, row.cases) << row.what << ": " << (row.first ? row.first->which : "");
  }
  EXPECT_EQ(seen, texts.size());
}

TEST(TextParity, OfTheCommittedValuesAllAreEqualWithTheReleasedVocabulary) {
  const auto vocabulary = test::shared_folder() / "k3/tiktoken.model";
  if (!std::filesystem::exists(vocabulary)) GTEST_SKIP() << "the released vocabulary is not here";
  const TextParity parity =
      check_text_parity(test::data_folder() / "text", Tokenizer(Vocabulary::load(vocabulary)));
  EXPECT_FALSE(parity.other_vocabulary);
  EXPECT_THAT(parity.missing, IsEmpty());
  EXPECT_THAT(differing_rows(parity), IsEmpty());
}

}  // namespace
}  // namespace perigee
