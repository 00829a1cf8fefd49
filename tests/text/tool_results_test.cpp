#include "text/tool_results.h"

#include <gtest/gtest.h>

#include "text/prompt_fixture.h"

namespace perigee {
namespace {

Message assistant(std::vector<std::pair<std::string, std::string>> ids_and_names) {
  Message message;
  message.role = Role::kAssistant;
  for (auto& [id, name] : ids_and_names) message.calls.push_back({.id = id, .name = name, .arguments = {}});
  return message;
}

Message user() {
  return {};
}

Message result(std::optional<std::string> call_id, const std::string& content) {
  Message message;
  message.role = Role::kTool;
  message.call_id = std::move(call_id);
  message.content.push_back({.text = content, .image = {}});
  return message;
}

// "content:tool:index" of every result, in the order of the prompt.
std::vector<std::string> placed(const std::vector<Message>& messages) {
  std::vector<std::string> results;
  for (const PlacedMessage& one : place_messages(messages)) {
    if (one.message->role != Role::kTool) continue;
    results.push_back(fmt::format("{}:{}:{}", one.message->content.at(0).text, one.tool, one.index));
  }
  return results;
}

using Results = std::vector<std::string>;

TEST(ToolResults, FramesEqualTheCodecVectors) {
  const auto golden = test::golden_json("chat/tool_codec.json").at("results");
  ASSERT_EQ(golden.size(), 16U);
  for (const auto& one : golden) {
    std::string frames;
    for (const auto& frame : one.at("tool_frames")) frames += frame.get<std::string>();
    const std::string text =
        test::rendered(one.at("messages").dump(), test::raw_rules(), GenerationPrompt::kNone);
    std::string results;
    for (std::size_t at = 0; (at = text.find("<|open|>message role=\"tool\"", at)) != std::string::npos;) {
      const std::size_t next = text.find("<|open|>message", at + 1);
      results += text.substr(at, next - at);
      at = next;
    }
    EXPECT_EQ(results, frames) << one.at("name");
  }
}

TEST(ToolResults, AreSortedByTheirCalls) {
  EXPECT_EQ(placed({assistant({{"a", "first"}, {"b", "second"}, {"c", "third"}}), result("c", "3"),
                    result("a", "1"), result("b", "2")}),
            (Results{"1:first:1", "2:second:2", "3:third:3"}));
}

TEST(ToolResults, StayAsTheyCameIfOneOfThemAnswersNothing) {
  EXPECT_EQ(
      placed({assistant({{"a", "first"}, {"b", "second"}}), result("b", "2"), result(std::nullopt, "?")}),
      (Results{"2:first:1", "?:second:2"}));
}

TEST(ToolResults, AreCountedOnFromRunToRunUntilTheNextAssistantMessage) {
  EXPECT_EQ(placed({assistant({{"a", "f"}, {"b", "g"}}), result("b", "2"), user(), result("a", "1"),
                    assistant({{"c", "h"}}), result("c", "3")}),
            (Results{"2:g:1", "1:f:2", "3:h:1"}));
}

TEST(ToolResults, AreNotMatchedWithCallsOfAnEarlierTurn) {
  EXPECT_EQ(placed({assistant({{"a", "f"}}), user(), assistant({{"b", "g"}}), result("a", "1")}),
            (Results{"1:g:1"}));
  EXPECT_EQ(placed({assistant({{"a", "f"}}), assistant({}), result("a", "1")}), (Results{"1::1"}));
}

TEST(ToolResults, TakeTheFirstOfCallsWithEqualIds) {
  EXPECT_EQ(placed({assistant({{"a", "f"}, {"a", "g"}}), result("a", "1")}), (Results{"1:f:1"}));
}

// A call without an id keeps its place among the calls and is never matched.
TEST(ToolResults, CountCallsWithoutIds) {
  EXPECT_EQ(placed({assistant({{"", "f"}, {"b", "g"}}), result("b", "2")}), (Results{"2:g:1"}));
  EXPECT_EQ(placed({assistant({{"", "f"}, {"b", "g"}}), result("", "1")}), (Results{"1:f:1"}));
}

TEST(ToolResults, KeepTheOrderOfResultsOfOneCall) {
  EXPECT_EQ(
      placed({assistant({{"a", "f"}, {"b", "g"}}), result("b", "2"), result("b", "2b"), result("a", "1")}),
      (Results{"1:f:1", "2:g:2", "2b:g:3"}));
}

TEST(ToolResults, AreNamedByTheirCallBeforeTheirOwnWords) {
  Message named = result("a", "1");
  named.tool = "own";
  named.name = "other";
  EXPECT_EQ(placed({assistant({{"a", "f"}}), named}), (Results{"1:f:1"}));
}

TEST(ToolResults, AreNamedByToolThenByNameThenByPosition) {
  Message both = result("?", "1");
  both.tool = "tool";
  both.name = "name";
  Message name = result("?", "2");
  name.name = "name";
  Message empty_tool = name;
  empty_tool.tool = "";
  EXPECT_EQ(placed({assistant({{"a", "f"}, {"b", "g"}, {"c", "h"}, {"d", "i"}}), both, name, empty_tool,
                    result("?", "4")}),
            (Results{"1:tool:1", "2:name:2", "2:name:3", "4:i:4"}));
}

TEST(ToolResults, HaveNoNameWithoutACallAtTheirPosition) {
  EXPECT_EQ(placed({result("a", "1")}), (Results{"1::1"}));
  EXPECT_EQ(placed({assistant({{"a", "f"}}), result("?", "1"), result("?", "2")}),
            (Results{"1:f:1", "2::2"}));
}

TEST(ToolResults, LeaveOtherMessagesWhereTheyAre) {
  const std::vector<Message> messages = {user(), assistant({{"a", "f"}}), result("a", "1"), user()};
  const auto all = place_messages(messages);
  ASSERT_EQ(all.size(), 4U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].message, &messages[i]);
}

}  // namespace
}  // namespace perigee
