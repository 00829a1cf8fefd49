// The committed streams: what the deltas of a reply join to, and what no delta may ever hold.
#include <gtest/gtest.h>

#include <random>

#include "support/vocabularies.h"
#include "text/reply_cases.h"

namespace perigee {
namespace {

using test::ReplyCase;
using test::ReplyRun;

nlohmann::json streamed_json(const ReplyRun& run) {
  std::vector<ReplyCall> complete = run.calls;
  complete.resize(run.message.calls.size());
  return {{"reasoning_content", run.reasoning},
          {"content", run.content},
          {"tool_calls", test::calls_json(complete)},
          {"finish_reason", finish_reason_name(run.message.finish)}};
}

// A stream has no null: what is absent joins to nothing.
nlohmann::json without_nulls(nlohmann::json message) {
  for (const char* key : {"reasoning_content", "content"})
    if (message.at(key).is_null()) message[key] = "";
  return message;
}

void expect_unfinished_call(const ReplyCase& one, const ReplyRun& run) {
  if (one.unfinished_call.is_null()) {
    EXPECT_EQ(run.calls.size(), run.message.calls.size()) << one.name;
    return;
  }
  ASSERT_EQ(run.calls.size(), run.message.calls.size() + 1) << one.name;
  const std::string so_far = one.unfinished_call.at("arguments_so_far");
  EXPECT_EQ(run.calls.back().name, one.unfinished_call.at("name")) << one.name;
  EXPECT_TRUE(so_far.starts_with(run.calls.back().arguments)) << one.name;
}

void expect_no_markup(const ReplyCase& one, const ReplyRun& run) {
  if (one.marker_text_in_output) return;
  for (const ReplyDelta& delta : run.deltas)
    EXPECT_EQ(delta.text.find("<|"), std::string::npos) << one.name << ": " << delta.text;
}

void expect_stream(const Tokenizer& tokenizer, const ReplyCase& one, std::span<const std::size_t> groups) {
  const ReplyRun run = test::run_reply(tokenizer, one.options, one.ended_by, one.ids, groups);
  EXPECT_EQ(run.fault, "") << one.name;
  EXPECT_EQ(streamed_json(run), one.streamed) << one.name;
  expect_unfinished_call(one, run);
  expect_no_markup(one, run);
}

std::vector<std::size_t> random_groups(std::mt19937& random, std::size_t ids) {
  std::vector<std::size_t> groups;
  for (std::size_t left = ids; left > 0; left -= groups.back())
    groups.push_back(std::min<std::size_t>(left, random() % 9));
  return groups;
}

TEST(ReplyStream, JoinsToTheVectorsHoweverItIsCut) {
  const Tokenizer* tokenizer = test::k3_tokenizer();
  if (tokenizer == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  const auto cases = test::reply_cases("reply_stream.json");
  ASSERT_EQ(cases.size(), 44U);
  std::mt19937 random(4);
  for (const ReplyCase& one : cases) {
    expect_stream(*tokenizer, one, test::one_by_one(one.ids.size()));
    for (std::size_t cut = 0; cut <= one.ids.size(); ++cut) expect_stream(*tokenizer, one, {&cut, 1});
    for (int i = 0; i < 20; ++i) expect_stream(*tokenizer, one, random_groups(random, one.ids.size()));
  }
}

// Also for the 227 replies that are not among the streams: where nothing else is said, a stream joins to the
// message.
TEST(ReplyStream, JoinsToTheMessageOfEveryVector) {
  const Tokenizer* tokenizer = test::k3_tokenizer();
  if (tokenizer == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  for (ReplyCase& one : test::reply_cases()) {
    nlohmann::json expected = without_nulls(one.expected);
    if (!one.streamed.is_null()) expected.update(one.streamed);
    one.streamed = expected;
    expect_stream(*tokenizer, one, test::one_by_one(one.ids.size()));
    expect_stream(*tokenizer, one, {});
  }
}

TEST(ReplyStream, JoinsToTheMessageWithAnotherVocabulary) {
  for (ReplyCase& one : test::reply_cases()) {
    if (!one.text_says_everything()) continue;
    nlohmann::json expected = without_nulls(one.expected);
    if (!one.streamed.is_null()) expected.update(one.streamed);
    one.streamed = expected;
    one.ids = test::nano_tokenizer().encode_markup(one.text);
    expect_stream(test::nano_tokenizer(), one, test::one_by_one(one.ids.size()));
    expect_stream(test::nano_tokenizer(), one, {});
  }
}

// What one push of `text` adds to `parser`.
std::vector<ReplyDelta> added(ReplyParser& parser, const std::string& text) {
  std::vector<ReplyDelta> deltas;
  parser.push(test::nano_tokenizer().encode_markup(text), deltas);
  return deltas;
}

TEST(ReplyStream, ShowsReasoningAtOnce) {
  ReplyParser parser(test::nano_tokenizer(), {});
  const auto deltas = added(parser, "so");
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].kind, ReplyDelta::Kind::kReasoning);
  EXPECT_EQ(deltas[0].text, "so");
}

TEST(ReplyStream, MergesNeighboursOfOnePushOnly) {
  ReplyParser parser(test::nano_tokenizer(), {});
  std::vector<ReplyDelta> deltas;
  const auto ids = test::nano_tokenizer().encode_markup("one two three");
  ASSERT_GT(ids.size(), 1U);
  parser.push(ids, deltas);
  ASSERT_EQ(deltas.size(), 1U);
  parser.push(ids, deltas);
  ASSERT_EQ(deltas.size(), 2U);
  EXPECT_EQ(deltas[0].text, "one two three");
}

TEST(ReplyStream, AnnouncesACallBeforeItsArgumentsAndStreamsStrings) {
  ReplyParser parser(test::nano_tokenizer(), {});
  auto deltas = added(parser, "<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool=\"say\"<|sep|>");
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].kind, ReplyDelta::Kind::kCallStart);
  EXPECT_EQ(deltas[0].text, "say");
  EXPECT_EQ(deltas[0].id, "say_0");
  deltas = added(parser, "<|open|>argument key=\"text\" type=\"string\"<|sep|>a\"b");
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].text, R"({"text":"a\"b)");
  deltas = added(parser, "<|close|>argument<|sep|><|close|>call<|sep|>");
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].text, "\"}");
}

TEST(ReplyStream, HoldsBackWhatMayBecomeAStopStringAndNothingElse) {
  ReplyOptions options;
  options.start = Channel::kResponse;
  options.stop = {"END"};
  ReplyParser parser(test::nano_tokenizer(), options);
  EXPECT_EQ(added(parser, "one E").at(0).text, "one ");
  EXPECT_TRUE(added(parser, "N").empty());
  EXPECT_EQ(added(parser, "d").at(0).text, "ENd");
  EXPECT_TRUE(added(parser, "EN").empty());
  // Released by the end of the channel, before anything of another one.
  const auto deltas =
      added(parser, "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|>");
  ASSERT_EQ(deltas.size(), 2U);
  EXPECT_EQ(deltas[0].text, "EN");
  EXPECT_EQ(deltas[1].kind, ReplyDelta::Kind::kCallStart);
}

TEST(ReplyStream, ReleasesWhatIsHeldBackWhenTheReplyIsCut) {
  ReplyOptions options;
  options.start = Channel::kResponse;
  options.stop = {"END"};
  ReplyParser parser(test::nano_tokenizer(), options);
  EXPECT_TRUE(added(parser, "EN").empty());
  std::vector<ReplyDelta> deltas;
  EXPECT_EQ(parser.finish(EndedBy::kMaxTokens, deltas).content, "EN");
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].text, "EN");
}

}  // namespace
}  // namespace perigee
