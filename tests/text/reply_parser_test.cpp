// Whole replies: the committed vectors in both vocabularies, and one test by name for everything that models
// were seen to do wrong.
#include "text/reply_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/vocabularies.h"
#include "text/reply_cases.h"

namespace perigee {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Tokenizer& nano() {
  return test::nano_tokenizer();
}

// The markers in `text` become special ids.
std::vector<TokenId> markup(const std::string& text) {
  return nano().encode_markup(text);
}

std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

ReplyMessage parsed(const std::vector<TokenId>& ids, const ReplyOptions& options = {},
                    EndedBy ended_by = EndedBy::kStop) {
  const test::ReplyRun run = test::run_reply(nano(), options, ended_by, ids);
  EXPECT_EQ(run.fault, "");
  return run.message;
}

ReplyMessage parsed(const std::string& text, const ReplyOptions& options = {},
                    EndedBy ended_by = EndedBy::kStop) {
  return parsed(markup(text), options, ended_by);
}

ReplyOptions starting_in(Channel channel) {
  ReplyOptions options;
  options.start = channel;
  return options;
}

const std::string kThinkEnd = "<|close|>think<|sep|>";
const std::string kAnswer = kThinkEnd + "<|open|>response<|sep|>";  // after the thought
const std::string kAnswerEnd = "<|close|>response<|sep|>";
const std::string kTools = "<|open|>tools<|sep|>";
const std::string kToolsEnd = "<|close|>tools<|sep|>";
const std::string kEnd = "<|close|>message<|sep|><|end_of_msg|>";
const std::string kPing = "<|open|>call tool=\"ping\" index=\"1\"<|sep|><|close|>call<|sep|>";

std::string call(const std::string& elements) {
  return kAnswer + kAnswerEnd + kTools + "<|open|>call tool=\"f\" index=\"1\"<|sep|>" + elements +
         "<|close|>call<|sep|>" + kToolsEnd + kEnd;
}

std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>" + value +
         "<|close|>argument<|sep|>";
}

// --- the committed vectors ---

TEST(ReplyParser, GivesTheMessageOfEveryVector) {
  const Tokenizer* tokenizer = test::k3_tokenizer();
  if (tokenizer == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  const auto cases = test::reply_cases();
  ASSERT_EQ(cases.size(), 271U);
  for (const test::ReplyCase& one : cases) {
    const test::ReplyRun run = test::run_reply(*tokenizer, one.options, one.ended_by, one.ids);
    EXPECT_EQ(test::message_json(run.message), one.expected) << one.name;
    EXPECT_EQ(run.message.notes, one.notes) << one.name;
    EXPECT_EQ(run.fault, "") << one.name;
  }
}

// The same replies in ids of another vocabulary: nothing in the parser is particular to one.
TEST(ReplyParser, GivesTheMessageOfEveryVectorWithAnotherVocabulary) {
  std::size_t done = 0;
  for (const test::ReplyCase& one : test::reply_cases()) {
    if (!one.text_says_everything()) continue;
    const test::ReplyRun run = test::run_reply(nano(), one.options, one.ended_by, markup(one.text));
    EXPECT_EQ(test::message_json(run.message), one.expected) << one.name;
    EXPECT_EQ(run.message.notes, one.notes) << one.name;
    EXPECT_EQ(run.fault, "") << one.name;
    ++done;
  }
  EXPECT_GE(done, 245U);
}

TEST(OpenChannel, EqualsTheVectors) {
  const Tokenizer* released = test::k3_tokenizer();
  const nlohmann::json states = test::reply_golden("reply_parser.json").at("start_state");
  ASSERT_EQ(states.size(), 9U);
  for (const nlohmann::json& one : states) {
    const std::string why = one.at("why");
    const std::string start = one.at("start");
    if (released != nullptr) {
      const auto ids = one.at("ids").get<std::vector<TokenId>>();
      EXPECT_EQ(channel_name(open_channel(ids, *released)), start) << why;
    }
    if (why.find("spelled") != std::string::npos) continue;  // its text does not say what is spelled
    EXPECT_EQ(channel_name(open_channel(markup(one.at("text")), nano())), start) << why;
  }
}

TEST(OpenChannel, IsNotTheOneThatWasClosedAgain) {
  EXPECT_EQ(open_channel(markup("<|open|>think<|sep|>a<|close|>think<|sep|>"), nano()), Channel::kIdle);
  EXPECT_EQ(open_channel(markup("<|open|>response<|sep|>a" + kAnswerEnd + kEnd), nano()), Channel::kIdle);
}

TEST(OpenChannel, IsNotReadFromSpelledMarkers) {
  const auto prompt = markup("<|open|>think<|sep|>") + nano().encode_plain("<|open|>response<|sep|>");
  EXPECT_EQ(open_channel(prompt, nano()), Channel::kThink);
}

TEST(OpenChannel, IgnoresAHeaderThatThePromptLeavesUnfinished) {
  EXPECT_EQ(open_channel(markup("<|open|>response<|sep|>x<|close|>resp"), nano()), Channel::kResponse);
}

TEST(OpenChannel, IsIdleBehindALongTagWhateverItBeginsWith) {
  const auto prompt = markup("<|open|>response a=\"1\" b=\"2\" c=\"3\" d=\"4\" e=\"5\"<|sep|>");
  EXPECT_EQ(open_channel(prompt, nano()), Channel::kIdle);
}

// --- what models do wrong ---

TEST(ReplyDeviation, SepOfTheThinkCloseIsElided) {
  const ReplyMessage message = parsed("A<|close|>think<|open|>response<|sep|>B" + kAnswerEnd + kEnd);
  EXPECT_EQ(message.reasoning, "A");
  EXPECT_EQ(message.content, "B");
  EXPECT_THAT(message.notes, ElementsAre("sep_missing"));
}

TEST(ReplyDeviation, ThinkIsNotClosedBeforeTheAnswer) {
  const ReplyMessage message = parsed("A<|open|>response<|sep|>B" + kAnswerEnd + kEnd);
  EXPECT_EQ(message.reasoning, "A");
  EXPECT_EQ(message.content, "B");
}

TEST(ReplyDeviation, ThinkIsNotClosedBeforeTools) {
  const ReplyMessage message = parsed("A" + kTools + kPing + kToolsEnd + kEnd);
  EXPECT_EQ(message.reasoning, "A");
  EXPECT_EQ(message.content, std::nullopt);
  ASSERT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.finish, FinishReason::kToolCalls);
}

TEST(ReplyDeviation, ThinkIsSkippedAndTheAnswerClosed) {
  const ReplyMessage message = parsed("B" + kAnswerEnd + kEnd);
  EXPECT_EQ(message.reasoning, std::nullopt);
  EXPECT_EQ(message.content, "B");
}

TEST(ReplyDeviation, ThinkIsSkippedAndOnlyTheMessageClosed) {
  EXPECT_EQ(parsed("B" + kEnd).content, "B");
}

TEST(ReplyDeviation, AThinkTagShowsThatTheTextWasAThought) {
  const ReplyMessage message = parsed("<|open|>think<|sep|>B" + kAnswerEnd + kEnd);
  EXPECT_EQ(message.reasoning, "B");
  EXPECT_EQ(message.content, "");
}

TEST(ReplyDeviation, AnAnswerInThinkStandsBeforeWhatFollows) {
  const ReplyMessage message = parsed("B" + kAnswerEnd + "<|open|>response<|sep|>C" + kAnswerEnd + kEnd);
  EXPECT_EQ(message.content, "BC");
  EXPECT_EQ(message.reasoning, std::nullopt);
}

TEST(ReplyDeviation, OpenThinkIsEmittedAgain) {
  const ReplyMessage message = parsed("<|open|>think<|sep|>A" + kAnswer + "B" + kAnswerEnd + kEnd);
  EXPECT_EQ(message.reasoning, "A");
  EXPECT_EQ(message.content, "B");
}

TEST(ReplyDeviation, OpenThinkIsEmittedAgainInOrdinaryTokens) {
  const ReplyMessage message = parsed(nano().encode_plain("<|open|>think<|sep") + nano().encode_plain("|>") +
                                      markup("A" + kAnswer + "B" + kAnswerEnd + kEnd));
  EXPECT_EQ(message.reasoning, "<|open|>think<|sep|>A");
  EXPECT_EQ(message.content, "B");
}

TEST(ReplyDeviation, TheMessageIsClosedWithoutTheResponse) {
  const ReplyMessage message = parsed("A" + kAnswer + "B" + kEnd);
  EXPECT_EQ(message.content, "B");
  EXPECT_EQ(message.finish, FinishReason::kStop);
}

TEST(ReplyDeviation, ToolsAreCalledThoughNoneAreDeclared) {
  ReplyOptions options;
  options.tools_allowed = false;
  const ReplyMessage message =
      parsed("A" + kAnswer + "B" + kAnswerEnd + kTools + kPing + "junk" + kToolsEnd + kEnd, options);
  EXPECT_EQ(message.content, "B");
  EXPECT_THAT(message.calls, IsEmpty());
  EXPECT_EQ(message.finish, FinishReason::kStop);
  EXPECT_THAT(message.notes, ElementsAre("tools_suppressed"));
}

TEST(ReplyDeviation, UndeclaredNamesAndRepeatedArgumentsReachTheClient) {
  const ReplyMessage message = parsed(call(argument("a", "number", "1") + argument("a", "string", "1")));
  ASSERT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.calls[0].name, "f");
  EXPECT_EQ(message.calls[0].arguments, R"({"a":1,"a":"1"})");
}

TEST(ReplyDeviation, TheReplyRunsOnBehindTheTools) {
  const ReplyMessage message =
      parsed("A" + kAnswer + kAnswerEnd + kTools + kPing + kToolsEnd + "and on" + kEnd);
  EXPECT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.content, std::nullopt);
  EXPECT_THAT(message.notes, ElementsAre("text_dropped"));
}

TEST(ReplyDeviation, ADegenerateLoopIsBoundedByItsOwnLength) {
  std::vector<TokenId> ids;
  while (ids.size() < 20'000) ids = ids + markup("<|open|>think<|sep|>la ");
  const ReplyMessage message = parsed(ids, {}, EndedBy::kMaxTokens);
  EXPECT_EQ(message.reasoning.value_or("").substr(0, 6), "la la ");
  EXPECT_EQ(message.finish, FinishReason::kLength);
  EXPECT_THAT(message.notes, Contains("ignored_tag"));
}

// --- what other parsers got wrong ---

TEST(ReplyParser, NeverReturnsACutThoughtAsTheAnswer) {
  const ReplyMessage message = parsed("half a thought", {}, EndedBy::kMaxTokens);
  EXPECT_EQ(message.reasoning, "half a thought");
  EXPECT_EQ(message.content, "");
  EXPECT_EQ(message.finish, FinishReason::kLength);
}

TEST(ReplyParser, KeepsTheSpelledMarkersOfAStringArgument) {
  const auto ids = markup(kAnswer + kAnswerEnd + kTools + "<|open|>call tool=\"f\" index=\"1\"<|sep|>" +
                          "<|open|>argument key=\"s\" type=\"string\"<|sep|>") +
                   nano().encode_plain("a<|close|>argument<|sep|>b") +
                   markup("<|close|>argument<|sep|><|close|>call<|sep|>" + kToolsEnd + kEnd);
  const ReplyMessage message = parsed(ids);
  ASSERT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.calls[0].arguments, R"({"s":"a<|close|>argument<|sep|>b"})");
}

TEST(ReplyParser, KeepsImagePlaceholdersAndOtherModelsSyntaxAsText) {
  const std::string text = "<|kimi_image_placeholder|> </think> <tool_call>{}</tool_call>";
  EXPECT_EQ(parsed(markup("r" + kAnswer) + nano().encode_plain(text) + markup(kAnswerEnd + kEnd)).content,
            text);
}

TEST(ReplyParser, AcceptsAnAnswerWithoutItsWrapper) {
  EXPECT_EQ(parsed("A" + kThinkEnd + "{\"ok\":true}" + kEnd).content, "{\"ok\":true}");
  EXPECT_EQ(parsed("{\"ok\":true}" + kEnd, starting_in(Channel::kIdle)).content, "{\"ok\":true}");
}

TEST(ReplyParser, FindsEveryCallOfOnePush) {
  const ReplyMessage message =
      parsed(kAnswer + kAnswerEnd + kTools + kPing + kPing + kPing + kToolsEnd + kEnd);
  ASSERT_EQ(message.calls.size(), 3U);
  EXPECT_EQ(message.calls[2].id, "ping_2");
}

TEST(ReplyParser, AngleBracketsInANameDoNotEndItsTag) {
  const ReplyMessage message =
      parsed(kThinkEnd + kTools + "<|open|>call tool=\"a<b>&quot;&amp;quot;\"<|sep|>" +
             "<|close|>call<|sep|>" + kToolsEnd + kEnd);
  ASSERT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.calls[0].name, "a<b>\"&quot;");
}

TEST(ReplyParser, EndsAtTheEndTokenInsideABatch) {
  const ReplyMessage message = parsed("A" + kAnswer + "B<|end_of_msg|>C");
  EXPECT_EQ(message.content, "B");
  EXPECT_THAT(message.notes, ElementsAre("after_end_dropped"));
}

TEST(ReplyParser, EndsAtEndOfTextToo) {
  EXPECT_EQ(parsed("A" + kAnswer + "B[EOS]C").content, "B");
}

TEST(ReplyParser, KeepsCompleteCallsOfACutReply) {
  const ReplyMessage message =
      parsed(kThinkEnd + kTools + kPing + "<|open|>call tool=\"g\"<|sep|>", {}, EndedBy::kMaxTokens);
  ASSERT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.finish, FinishReason::kLength);
}

TEST(ReplyParser, NeverShowsANumberThatWasCut) {
  const test::ReplyRun run =
      test::run_reply(nano(), {}, EndedBy::kMaxTokens,
                      markup(kThinkEnd + kTools + "<|open|>call tool=\"pay\"<|sep|>" +
                             "<|open|>argument key=\"cents\" type=\"number\"<|sep|>12"));
  EXPECT_THAT(run.message.calls, IsEmpty());
  ASSERT_EQ(run.calls.size(), 1U);
  EXPECT_EQ(run.calls[0].arguments, R"({"cents":)");
}

TEST(ReplyParser, DropsHalfACharacterAtAnEndTokenAsAtACut) {
  const std::vector<TokenId> half = {*nano().vocabulary().ordinary("\xF0"),
                                     *nano().vocabulary().ordinary("\x9F")};
  for (const EndedBy ended_by : {EndedBy::kStop, EndedBy::kMaxTokens}) {
    const ReplyMessage message = parsed(markup("A" + kAnswer + "B") + half, {}, ended_by);
    EXPECT_EQ(message.content, "B");
    EXPECT_THAT(message.notes, ElementsAre("utf8_tail_dropped"));
  }
  EXPECT_EQ(parsed(markup("A" + kAnswer + "B") + half + markup("<|end_of_msg|>")).content, "B");
}

TEST(ReplyParser, ACharacterContinuesBehindATagThatIsIgnored) {
  const auto byte = [](const char* one) { return std::vector<TokenId>{*nano().vocabulary().ordinary(one)}; };
  const ReplyMessage message = parsed(markup("A" + kAnswer) + byte("\xC3") + markup("<|open|>think<|sep|>") +
                                      byte("\xA9") + markup(kAnswerEnd + kEnd));
  EXPECT_EQ(message.content, "é");
}

TEST(ReplyParser, TellsWhichStopStringEndedTheReply) {
  ReplyOptions options = starting_in(Channel::kResponse);
  options.stop = {"two", "three"};
  const ReplyMessage message = parsed("one, two, three", options, EndedBy::kMaxTokens);
  EXPECT_EQ(message.content, "one, ");
  EXPECT_EQ(message.stop_string, "two");
  EXPECT_EQ(message.finish, FinishReason::kStop);
  EXPECT_EQ(parsed("one", options).stop_string, std::nullopt);
}

// "bc" is complete while "abcd" may still begin before it; then the text ends.
TEST(ReplyParser, AStopStringThatWaitedForAnEarlierOneCountsWhenTheTextEnds) {
  ReplyOptions options = starting_in(Channel::kResponse);
  options.stop = {"abcd", "bc"};
  for (const EndedBy ended_by : {EndedBy::kStop, EndedBy::kMaxTokens}) {
    const ReplyMessage cut = parsed("xabc", options, ended_by);
    EXPECT_EQ(cut.content, "xa");
    EXPECT_EQ(cut.stop_string, "bc");
    EXPECT_EQ(cut.finish, FinishReason::kStop);
    const ReplyMessage closed =
        parsed("xabc" + kAnswerEnd + kTools + kPing + kToolsEnd + kEnd, options, ended_by);
    EXPECT_EQ(closed.content, "xa");
    EXPECT_EQ(closed.stop_string, "bc");
    EXPECT_THAT(closed.calls, IsEmpty());
  }
}

TEST(ReplyParser, AStopStringDoesNotSpanTheWrapperOfTheAnswer) {
  ReplyOptions options;
  options.stop = {"END"};
  EXPECT_EQ(parsed("A" + kThinkEnd + "EN<|open|>response<|sep|>D" + kAnswerEnd + kEnd, options).content,
            "END");
}

TEST(ReplyParser, AStopStringSpansATagThatIsIgnored) {
  ReplyOptions options;
  options.stop = {"END"};
  EXPECT_EQ(parsed("A" + kAnswer + "xEN<|open|>think<|sep|>D" + kAnswerEnd + kEnd, options).content, "x");
}

TEST(ReplyParser, CountsCallIdsOverTheConversation) {
  ReplyOptions options;
  options.calls_so_far = 7;
  const ReplyMessage message = parsed(kThinkEnd + kTools + kPing + kPing + kToolsEnd + kEnd, options);
  ASSERT_EQ(message.calls.size(), 2U);
  EXPECT_EQ(message.calls[0].id, "ping_7");
  EXPECT_EQ(message.calls[1].id, "ping_8");
}

TEST(ReplyParser, IsDoneAtTheCloseOfTheMessage) {
  ReplyParser parser(nano(), {});
  std::vector<ReplyDelta> deltas;
  parser.push(markup("A" + kAnswer + "B" + kAnswerEnd), deltas);
  EXPECT_FALSE(parser.done());
  parser.push(markup("<|close|>message<|sep|>"), deltas);
  EXPECT_TRUE(parser.done());
}

}  // namespace
}  // namespace perigee
