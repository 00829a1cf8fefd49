#include "text/prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "support/expect_error.h"
#include "support/vocabularies.h"
#include "text/prompt_fixture.h"

namespace perigee {
namespace {

using json = nlohmann::ordered_json;
using test::conversation_of;
using test::golden_json;
using test::raw_rules;
using test::rendered;

constexpr const char* kOpenedReply = R"(<|open|>message role="assistant"<|sep|><|open|>think<|sep|>)";
constexpr const char* kUserGo =
    R"(<|open|>message role="user"<|sep|>go<|close|>message<|sep|><|end_of_msg|>)";

// One line a segment: S for structure, P for plain text.
std::string listed(std::span<const Segment> segments) {
  std::string lines;
  for (const Segment& segment : segments) {
    lines += std::holds_alternative<std::string>(segment) ? "P " : "S ";
    lines += segment_text(segment) + '\n';
  }
  return lines;
}

// The size that the golden's image prompt speaks of.
ImageSize size_in(const std::string& image_prompt) {
  ImageSize size;
  EXPECT_EQ(std::sscanf(image_prompt.c_str(), "<|media_begin|>image %ux%u<", &size.width, &size.height), 2);
  return size;
}

std::vector<Segment> golden_prompt(const json& input) {
  ConversationRules rules = raw_rules();
  std::size_t image = 0;
  rules.image_size = [&](const std::string&, const JsonNode&, const std::string&) {
    return size_in(input.at("image_prompts").at(image++));
  };
  return build_prompt(conversation_of(input.dump(), rules));
}

TEST(Prompt, EqualsThePublishedOnesAsText) {
  const json golden = golden_json("prompts.json");
  ASSERT_EQ(golden.at("cases").size(), 30U);
  for (const json& one : golden.at("cases")) {
    EXPECT_EQ(prompt_text(golden_prompt(one.at("input"))), one.at("text").get<std::string>())
        << one.at("name") << ": " << one.at("title");
  }
}

TEST(Prompt, EqualsThePublishedOnesIdById) {
  const Tokenizer* k3 = test::k3_tokenizer();
  if (k3 == nullptr) GTEST_SKIP() << "needs the released vocabulary, k3/tiktoken.model";
  const json golden = golden_json("prompts.json");
  for (const json& one : golden.at("cases")) {
    EXPECT_EQ(test::prompt_ids(*k3, golden_prompt(one.at("input"))),
              one.at("ids").get<std::vector<TokenId>>())
        << one.at("name") << ": " << one.at("title");
  }
}

// Text always, ids where the released vocabulary is at hand.
void expect_golden(const json& one, const std::vector<Segment>& segments) {
  EXPECT_EQ(prompt_text(segments), one.at("text").get<std::string>()) << one.at("name");
  if (const Tokenizer* k3 = test::k3_tokenizer(); k3 != nullptr && one.contains("ids")) {
    EXPECT_EQ(test::prompt_ids(*k3, segments), one.at("ids").get<std::vector<TokenId>>()) << one.at("name");
  }
}

TEST(Prompt, DeclaresToolsAsTheCodecVectorsDo) {
  const json golden = golden_json("chat/tool_codec.json").at("declare");
  ASSERT_EQ(golden.size(), 19U);
  for (const json& one : golden) {
    const auto tools = one.at("tools").get<std::string>();
    const Conversation request = conversation_of(R"({"messages":[],"tools":)" + tools + "}");
    EXPECT_EQ(request.tools_json, one.at("json").get<std::string>()) << one.at("name");
    expect_golden(one, build_prompt(request, GenerationPrompt::kNone));
    if (!one.contains("as_system_message")) continue;
    json added = one.at("as_system_message");
    added["name"] = one.at("name");
    expect_golden(added,
                  build_prompt(conversation_of(R"({"messages":[{"role":"system","tools":)" + tools + "}]}"),
                               GenerationPrompt::kNone));
  }
}

// The segments of the `tools` block of the last message.
std::vector<Segment> tools_block(const std::vector<Segment>& segments) {
  const Segment tools = std::string("tools");
  const auto first = std::find(segments.begin(), segments.end(), tools);
  const auto last = std::find(segments.rbegin(), segments.rend(), tools).base();
  return {first - 1, last + 1};
}

TEST(Prompt, WritesToolCallsAsTheCodecVectorsDo) {
  const json golden = golden_json("chat/tool_codec.json").at("calls");
  ASSERT_EQ(golden.size(), 62U);
  for (const json& one : golden) {
    const std::string request = test::with_tool_calls(one.at("tool_calls").get<std::string>());
    expect_golden(one, tools_block(build_prompt(conversation_of(request), GenerationPrompt::kNone)));
  }
}

TEST(Prompt, PutsToolResultsAsTheCodecVectorsDo) {
  const json golden = golden_json("chat/tool_codec.json").at("results");
  ASSERT_EQ(golden.size(), 16U);
  for (const json& one : golden) {
    expect_golden(one, build_prompt(conversation_of(one.at("messages").dump()), GenerationPrompt::kNone));
  }
}

TEST(Prompt, SaysChoiceAndFormatAsTheCodecVectorsDo) {
  const json golden = golden_json("chat/tool_codec.json").at("system_messages");
  ASSERT_EQ(golden.size(), 12U);
  for (const json& one : golden) {
    std::string request = R"({"messages":[])";
    for (const char* field : {"tool_choice", "response_format"}) {
      if (one.contains(field)) request += fmt::format(",\"{}\":{}", field, one.at(field).get<std::string>());
    }
    expect_golden(one, build_prompt(conversation_of(request + "}"), GenerationPrompt::kNone));
  }
}

TEST(Prompt, KeepsEveryAttributePieceASegmentOfItsOwn) {
  EXPECT_EQ(
      listed(build_prompt(conversation_of(R"([{"role":"user","name":"a\"b","content":"Hi"}])"))),
      "S <|open|>\nP message\nP  role\nP =\"\nP user\nP \"\nP  name\nP =\"\nP a&quot;b\nP \"\nS <|sep|>\n"
      "P Hi\nS <|close|>\nP message\nS <|sep|>\nS <|end_of_msg|>\n"
      "S <|open|>\nP message\nP  role\nP =\"\nP assistant\nP \"\nS <|sep|>\nS <|open|>\nP think\nS "
      "<|sep|>\n");
}

TEST(Prompt, HasNoEmptySegments) {
  const Conversation conversation = conversation_of(
      R"([{"role":"user","content":[{"type":"text","text":""}]},
          {"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"":""}}}]}])");
  for (const Segment& segment : build_prompt(conversation)) EXPECT_NE(segment_text(segment), "");
}

TEST(Prompt, EscapesAmpersandsBeforeQuotesAndNothingElse) {
  EXPECT_EQ(rendered(R"([{"role":"user","name":"&quot; \" <b>\n&","content":"& \" <b> &amp;"}])", raw_rules(),
                     GenerationPrompt::kNone),
            "<|open|>message role=\"user\" name=\"&amp;quot; &quot; <b>\n&amp;\"<|sep|>& \" <b> &amp;"
            "<|close|>message<|sep|><|end_of_msg|>");
}

TEST(Prompt, OrdersToolsEffortMessagesChoiceFormatReply) {
  const std::string text = rendered(
      R"({"messages":[{"role":"user","content":"go"}],"thinking_effort":"low","tool_choice":"required",
          "response_format":{"type":"json_object"},"tools":[{"type":"function","function":{"name":"f"}}]})");
  std::size_t last = 0;
  for (const char* part : {"# Tools", "thinking_effort=low", "role=\"user\"", "tool_choice=required",
                           "response_format=json_object", kOpenedReply}) {
    const std::size_t at = text.find(part);
    ASSERT_NE(at, std::string::npos) << part;
    EXPECT_GE(at, last) << part;
    last = at;
  }
  EXPECT_TRUE(text.ends_with(kOpenedReply));
}

TEST(Prompt, BeginsWithNothingOfItsOwn) {
  EXPECT_EQ(rendered(R"([{"role":"user","content":"go"}])"), std::string(kUserGo) + kOpenedReply);
}

TEST(Prompt, EndsBehindTheMessagesWithoutAGenerationPrompt) {
  EXPECT_EQ(rendered(R"([{"role":"user","content":"go"}])", raw_rules(), GenerationPrompt::kNone), kUserGo);
}

TEST(Prompt, IgnoresTheEffortWhenThinkingIsOff) {
  EXPECT_EQ(
      rendered(R"({"messages":[{"role":"user","content":"go"}],"thinking":false,"thinking_effort":"max"})"),
      std::string(kUserGo) + R"(<|open|>message role="assistant"<|sep|><|open|>response<|sep|>)");
}

TEST(Prompt, KeepsWhiteSpaceOnlyReasoningAndUntrimmedContent) {
  EXPECT_EQ(rendered(R"([{"role":"assistant","reasoning_content":" \n","content":" a\n"}])", raw_rules(),
                     GenerationPrompt::kNone),
            "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|> \n<|close|>think<|sep|>"
            "<|open|>response<|sep|> a\n<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>");
}

TEST(Prompt, RendersAnAbortedTurnAsReasoningAndAnEmptyResponse) {
  EXPECT_EQ(rendered(R"([{"role":"assistant","reasoning":"So"}])", raw_rules(), GenerationPrompt::kNone),
            "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>So<|close|>think<|sep|>"
            "<|open|>response<|sep|><|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>");
}

TEST(Prompt, LeavesTheReasoningOfTheHistoryOutWhenThinkingIsOff) {
  EXPECT_EQ(rendered(R"({"messages":[{"role":"assistant","reasoning":"So","content":"a"}],"thinking":false})",
                     raw_rules(), GenerationPrompt::kNone),
            "<|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>a<|close|>response<|sep|>"
            "<|close|>message<|sep|><|end_of_msg|>");
}

TEST(Prompt, PutsTheContentOfASystemMessageBehindTheToolsItAdds) {
  EXPECT_EQ(
      rendered(R"([{"role":"system","name":"n","content":"Use them.","tools":[{"function":{"name":"f"}}]}])",
               raw_rules(), GenerationPrompt::kNone),
      "<|open|>message role=\"system\" type=\"tool-declare\"<|sep|>## New Tools Available\n"
      "The system dynamically extends the toolset via lazy-loading.\n"
      "You have access to all existing and extended tools.\n"
      "Here are the specs for the extended tools.\n\n"
      "```json\n[{\"function\":{\"name\":\"f\"}}]\n```<|close|>message<|sep|><|end_of_msg|>"
      "<|open|>message role=\"system\" name=\"n\"<|sep|>Use them.<|close|>message<|sep|><|end_of_msg|>");
}

TEST(Prompt, RendersASystemMessageInItsPlace) {
  EXPECT_EQ(rendered(R"([{"role":"user","content":"go"},{"role":"system","content":"French."}])", raw_rules(),
                     GenerationPrompt::kNone),
            std::string(kUserGo) +
                R"(<|open|>message role="system"<|sep|>French.<|close|>message<|sep|><|end_of_msg|>)");
}

struct Continuation {
  const char* message;  // the fields of a partial assistant message
  bool thinking;
  const char* end;  // of the prompt, behind the user's message
};

TEST(Prompt, LeavesAPartialMessageOpenWhereItEnds) {
  const Continuation cases[] = {
      {R"("content":"{\"a\":")", true,
       R"(message role="assistant"<|sep|><|open|>think<|sep|><|close|>think<|sep|><|open|>response<|sep|>{"a":)"},
      {R"("reasoning_content":"So","content":"a")", true,
       R"(message role="assistant"<|sep|><|open|>think<|sep|>So<|close|>think<|sep|><|open|>response<|sep|>a)"},
      {R"("reasoning_content":"So")", true, R"(message role="assistant"<|sep|><|open|>think<|sep|>So)"},
      {R"("content":"")", true, R"(message role="assistant"<|sep|><|open|>think<|sep|>)"},
      {R"("content":"a","name":"bot")", true,
       R"(message role="assistant" name="bot"<|sep|><|open|>think<|sep|><|close|>think<|sep|><|open|>response<|sep|>a)"},
      {R"("reasoning_content":"So","content":"a")", false,
       R"(message role="assistant"<|sep|><|open|>response<|sep|>a)"},
      {R"("content":"")", false, R"(message role="assistant"<|sep|><|open|>response<|sep|>)"},
  };
  for (const Continuation& one : cases) {
    const std::string request = fmt::format(
        R"({{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","partial":true,{}}}],"thinking":{}}})",
        one.message, one.thinking);
    EXPECT_EQ(rendered(request), std::string(kUserGo) + "<|open|>" + one.end);
    EXPECT_EQ(rendered(request, raw_rules(), GenerationPrompt::kNone), rendered(request));
  }
}

TEST(Prompt, PutsChoiceAndFormatBeforeAPartialMessage) {
  const std::string text =
      rendered(R"({"messages":[{"role":"assistant","content":"Ab","partial":true}],"tool_choice":"none"})");
  EXPECT_LT(text.find("tool_choice=none"), text.find("Ab"));
  EXPECT_TRUE(text.ends_with("<|open|>response<|sep|>Ab"));
}

TEST(Prompt, NeverSendsTheIdOfACall) {
  const std::string text = rendered(
      R"([{"role":"assistant","tool_calls":[{"id":"SECRET","function":{"name":"f"}}]},
          {"role":"tool","tool_call_id":"SECRET","content":"1"}])");
  EXPECT_EQ(text.find("SECRET"), std::string::npos);
}

TEST(Prompt, RefusesAResultThatNothingNames) {
  Conversation conversation;
  conversation.messages.resize(1);
  conversation.messages[0].role = Role::kTool;
  EXPECT_ERROR(build_prompt(conversation), ErrorCode::kUsage, "give it the tool_call_id of a call or a name");
}

TEST(PromptEncoder, EncodesAnImageAsItsTextWithSpecialTokens) {
  for (const Tokenizer* tokenizer : {test::k3_tokenizer(), &test::nano_tokenizer()}) {
    if (tokenizer == nullptr) continue;
    for (const ImageSize size : {ImageSize{640, 480}, ImageSize{1, 4096}, ImageSize{4294967295, 7}}) {
      const Segment image = size;
      const PromptIds prompt = PromptEncoder(*tokenizer).encode({&image, 1});
      EXPECT_EQ(prompt.ids, tokenizer->encode_markup(segment_text(image)));
      ASSERT_EQ(prompt.images.size(), 1U);
      EXPECT_EQ(prompt.images[0].size, size);
      EXPECT_EQ(prompt.ids[prompt.images[0].pad], tokenizer->vocabulary().special("<|media_pad|>"));
    }
  }
}

TEST(PromptEncoder, TellsWhereEveryImageIs) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  const auto segments = build_prompt(conversation_of(
      R"([{"role":"user","content":[{"type":"image_url","image_url":"a"},{"type":"text","text":"and"},
                                    {"type":"image_url","image_url":{"url":"b"}}]}])"));
  const PromptIds prompt = PromptEncoder(tokenizer).encode(segments);
  ASSERT_EQ(prompt.images.size(), 2U);
  EXPECT_LT(prompt.images[0].pad, prompt.images[1].pad);
  for (const PromptIds::Image& image : prompt.images) {
    EXPECT_EQ(prompt.ids[image.pad], tokenizer.vocabulary().special("<|media_pad|>"));
  }
}

// What an API counts as prompt tokens leaves these out, so their number is part of the format.
TEST(PromptEncoder, OpensTheReplysChannelWithThreeIds) {
  const Tokenizer& tokenizer = test::nano_tokenizer();
  const auto with = build_prompt(conversation_of(R"([{"role":"user","content":"go"}])"));
  const auto ids = test::prompt_ids(tokenizer, with);
  std::vector<TokenId> tail(ids.end() - kPendingPromptIds, ids.end());
  EXPECT_EQ(tokenizer.decode(tail), "<|open|>think<|sep|>");
}

}  // namespace
}  // namespace perigee
