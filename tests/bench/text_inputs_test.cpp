// What text_inputs.h promises about the texts that tokenizers are measured with.
#include "bench/text_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "text/prompt.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::size_t kBytes = 20'000;

std::vector<TextInput> all_inputs() {
  std::vector<TextInput> inputs = make_text_inputs(kBytes);
  for (TextInput& input : make_worst_cases(kBytes)) inputs.push_back(std::move(input));
  return inputs;
}

TEST(TextInputs, AreUtf8AndALittleLongerThanAskedFor) {
  for (const TextInput& input : all_inputs()) {
    EXPECT_TRUE(is_valid_utf8(input.text)) << input.name;
    EXPECT_GE(input.text.size(), kBytes) << input.name;
    EXPECT_LT(input.text.size(), kBytes + 3000) << input.name;
  }
}

TEST(TextInputs, AreTheSameEveryTime) {
  const std::vector<TextInput> first = all_inputs();
  const std::vector<TextInput> second = all_inputs();
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].text, second[i].text) << first[i].name;
}

TEST(TextInputs, HaveNamesOfOneWord) {
  std::set<std::string> names;
  for (const TextInput& input : all_inputs()) {
    EXPECT_THAT(input.name, ::testing::MatchesRegex("[a-z0-9-]+"));
    EXPECT_TRUE(names.insert(input.name).second) << input.name;
  }
}

TEST(TextInputs, KeepOneLineWhereTheySaySo) {
  for (const TextInput& input : make_text_inputs(kBytes)) {
    if (input.name != "base64" && input.name != "long-line") continue;
    EXPECT_EQ(input.text.find('\n'), std::string::npos) << input.name;
  }
}

// A text of few words would sit in a tokenizer's caches and flatter it.
TEST(TextInputs, HaveManyDifferentWords) {
  std::istringstream text(english_text(200'000));
  std::set<std::string> words;
  for (std::string word; text >> word;) words.insert(word);
  EXPECT_GT(words.size(), 3000u);
}

TEST(TextInputs, HaveJsonThatIsJson) {
  for (const TextInput& input : make_text_inputs(kBytes)) {
    if (input.name != "json") continue;
    const std::string list =
        "[" + input.text.substr(0, input.text.size() - 2) + "]";  // without the last ",\n"
    EXPECT_TRUE(nlohmann::json::accept(list));
  }
}

TEST(LongConversation, HasAsManyMessagesAndToolsAsAskedFor) {
  for (const std::size_t messages : {1u, 2u, 5u, 200u}) {
    const Conversation conversation = make_long_conversation(messages, 60);
    EXPECT_EQ(conversation.messages.size(), messages);
    EXPECT_EQ(conversation.tool_names.size(), 60u);
    const auto tools = nlohmann::json::parse(conversation.tools_json);
    EXPECT_EQ(tools.size(), 60u);
    EXPECT_EQ(tools.dump(), conversation.tools_json) << "not sorted and compact";
  }
}

TEST(LongConversation, CanBeRendered) {
  EXPECT_GT(build_prompt(make_long_conversation(200, 60)).size(), 1000u);
}

}  // namespace
}  // namespace perigee
