#include "text/conversation_json.h"

#include <gtest/gtest.h>

#include "text/refusals.h"

namespace perigee {
namespace {

using test::conversation_of;
using test::raw_rules;
using test::Refusal;
using test::refused_field;
using test::rendered;
using test::server_rules;
using test::with_fields;
using test::with_message;
using test::with_tools;

constexpr const char* kTool = R"({"type":"function","function":{"name":"f"}})";

TEST(ConversationJson, RefusesMessagesThatAreNoMessages) {
  const Refusal cases[] = {
      {R"({})", "messages"},
      {R"(7)", "messages"},
      {R"([])", "messages"},
      {R"({"messages":null})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"Hi"})", "messages"},
      {R"({"messages":{"role":"user"}})", "messages"},
      {R"({"messages":["Hi"]})", "messages[0]"},
      {R"({"messages":[null]})", "messages[0]"},
      {R"({"messages":[{"content":"Hi"}]})", "messages[0].role"},
      {R"({"messages":[{"role":7}]})", "messages[0].role"},
      {with_message(R"({"role":"wizard","content":"x"})"), "messages[1].role"},
      {with_message(R"({"role":"function","name":"f","content":"x"})"), "messages[1].role"},
      {with_message(R"({"role":"user","content":"x","name":7})"), "messages[1].name"},
  };
  for (const Refusal& one : cases) EXPECT_EQ(refused_field(one.request), one.param) << one.request;
}

TEST(ConversationJson, RefusesContentOfAnotherShape) {
  const Refusal cases[] = {
      {R"(5)", "content"},
      {R"(true)", "content"},
      {R"({"type":"text","text":"x"})", "content"},
      {R"(["a"])", "content[0]"},
      {R"([{"type":"text","text":"a"},{"type":"text"}])", "content[1].text"},
      {R"([{"type":"text","text":7}])", "content[0].text"},
      {R"([{"type":"text","text":null}])", "content[0].text"},
      {R"([{}])", "content[0].text"},
      {R"([{"type":3,"text":"a"}])", "content[0].type"},
      {R"([{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AAAA"}}])", "content[0].type"},
      {R"([{"type":"image_url"}])", "content[0].image_url"},
      {R"([{"type":"image_url","image_url":7}])", "content[0].image_url"},
      {R"([{"type":"image_url","image_url":{"url":""}}])", "content[0].image_url"},
      {R"([{"type":"image_url","image_url":{"url":7}}])", "content[0].image_url.url"},
  };
  for (const Refusal& one : cases) {
    EXPECT_EQ(refused_field(R"([{"role":"user","content":)" + one.request + "}]"), "messages[0]." + one.param)
        << one.request;
  }
}

TEST(ConversationJson, RefusesToolCallsThatCannotBeRendered) {
  const Refusal cases[] = {
      {R"({"id":"x"})", ""},
      {R"([7])", "[0]"},
      {R"([{}])", "[0].function.name"},
      {R"([{"id":"x","function":7}])", "[0].function"},
      {R"([{"id":7,"function":{"name":"f"}}])", "[0].id"},
      {R"([{"id":"x","function":{"arguments":"{}"}}])", "[0].function.name"},
      {R"([{"id":"x","function":{"name":""}}])", "[0].function.name"},
      {R"([{"id":"x","function":{"name":3}}])", "[0].function.name"},
      {R"([{"id":"x","function":{"name":"f","arguments":[1]}}])", "[0].function.arguments"},
      {R"([{"id":"x","function":{"name":"f","arguments":5}}])", "[0].function.arguments"},
      {R"([{"id":"x","function":{"name":"f"}},{"id":"y","name":"f","arguments":true}])", "[1].arguments"},
  };
  for (const Refusal& one : cases) {
    EXPECT_EQ(refused_field(test::with_tool_calls(one.request)), "messages[1].tool_calls" + one.param)
        << one.request;
  }
}

TEST(ConversationJson, RefusesTheCallsThatTheCodecVectorsReject) {
  const auto golden = test::golden_json("chat/tool_codec.json").at("rejected");
  ASSERT_EQ(golden.size(), 6U);
  for (const auto& one : golden) {
    const std::string request = test::with_tool_calls(one.at("tool_calls").get<std::string>());
    EXPECT_TRUE(refused_field(request, raw_rules()).starts_with("messages[1].tool_calls[0]."))
        << one.at("name");
  }
}

TEST(ConversationJson, RefusesToolResultsThatAnswerNothing) {
  EXPECT_EQ(refused_field(R"([{"role":"tool","content":"1"}])"), "messages[0].tool_call_id");
  EXPECT_EQ(refused_field(R"([{"role":"tool","tool_call_id":7,"content":"1"}])"), "messages[0].tool_call_id");
  EXPECT_EQ(refused_field(with_message(R"({"role":"tool","tool_call_id":"nobody","content":"1"})")),
            "messages[1].tool_call_id");
  EXPECT_EQ(
      refused_field(with_message(R"({"role":"tool","tool_call_id":"nobody","content":"1","name":"f"})")), "");
  // Named after the message that was sent, also where sorting moves results.
  EXPECT_EQ(refused_field(
                R"([{"role":"assistant","tool_calls":[{"id":"a","name":"f"},{"id":"b","name":"g"}]},
                    {"role":"tool","tool_call_id":"b","content":"2"},{"role":"tool","tool_call_id":"a","content":"1"},
                    {"role":"user","content":"and"},{"role":"tool","tool_call_id":"c","content":"3"}])"),
            "messages[4].tool_call_id");
}

TEST(ConversationJson, AcceptsAResultWithoutIdOnlyLeniently) {
  const std::string request =
      R"([{"role":"assistant","tool_calls":[{"id":"a","name":"f"}]},{"role":"tool","content":"1"}])";
  EXPECT_EQ(refused_field(request), "messages[1].tool_call_id");
  EXPECT_EQ(refused_field(request, raw_rules()), "");
  EXPECT_EQ(refused_field(R"([{"role":"tool","content":"1"}])", raw_rules()), "messages[0].tool_call_id");
}

TEST(ConversationJson, RefusesToolsThatCannotBeCalled) {
  const std::string function = R"({"type":"function","function":)";
  const Refusal cases[] = {
      {R"({"type":"function"})", "tools"},
      {R"("f")", "tools"},
      {R"([null])", "tools[0]"},
      {fmt::format("[{},{}]", kTool, R"({"type":"bogus","function":{"name":"x"}})"), "tools[1].type"},
      {R"([{"function":{"name":"x"}}])", "tools[0].type"},
      {R"([{"type":"function"}])", "tools[0].function"},
      {R"([{"type":"function","function":"f"}])", "tools[0].function"},
      {"[" + function + "{}}]", "tools[0].function.name"},
      {"[" + function + R"({"name":7}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":""}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":"1st"}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":"-a"}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":"a.b"}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":"a b"}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":"$web_search"}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":"天气"}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":")" + std::string(257, 'a') + R"("}}])", "tools[0].function.name"},
      {"[" + function + R"({"name":"f","parameters":"object"}}])", "tools[0].function.parameters"},
      {fmt::format("[{},{}]", kTool, kTool), "tools[1].function.name"},
  };
  for (const Refusal& one : cases)
    EXPECT_EQ(refused_field(with_tools(one.request)), one.param) << one.request;
}

TEST(ConversationJson, AcceptsEveryToolThatCanBeCalled) {
  const std::string name_256(256, 'a');
  for (const std::string& name : {std::string("f"), std::string("a-b_C9"), std::string("_"), name_256}) {
    const Conversation read = conversation_of(
        with_tools(R"([{"type":"function","function":{"name":")" + name + R"("}}])"), server_rules());
    EXPECT_EQ(read.tool_names, std::vector<std::string>{name});
  }
  EXPECT_EQ(refused_field(with_tools(R"([{"type":"builtin_function","function":{"name":"$web_search"}}])")),
            "");
  EXPECT_EQ(refused_field(with_tools(R"([{"type":"function","function":{"name":"f","parameters":null}}])")),
            "");
  EXPECT_EQ(conversation_of(with_tools("[]"), server_rules()).tools_json, "");
  EXPECT_EQ(conversation_of(with_tools("null"), server_rules()).tools_json, "");
}

// Hosts of K3 were seen to refuse these.
TEST(ConversationJson, JudgesNoSchema) {
  for (const char* schema : {R"({"$id":"https://x/y","$schema":"http://json-schema.org/draft-07/schema#"})",
                             R"({"anyOf":[{"type":"object"},{"type":"null"}]})",
                             R"({"type":"object","properties":{"首都":{}}})", "{}"}) {
    const std::string function = fmt::format(R"({{"name":"f","parameters":{}}})", schema);
    EXPECT_EQ(refused_field(with_tools(R"([{"type":"function","function":)" + function + "}]")), "")
        << schema;
    EXPECT_EQ(refused_field(with_fields(
                  R"("response_format":{"type":"json_schema","json_schema":{"name":"a","schema":)" +
                  std::string(schema) + "}}")),
              "")
        << schema;
  }
}

TEST(ConversationJson, AllowsOneHundredAndTwentyEightTools) {
  for (const auto& [count, param] : {std::pair(128, ""), std::pair(129, "tools")}) {
    std::string tools;
    for (int i = 0; i < count; ++i) {
      tools += fmt::format(R"({}{{"type":"function","function":{{"name":"t{}"}}}})", i == 0 ? "" : ",", i);
    }
    EXPECT_EQ(refused_field(with_tools("[" + tools + "]")), param) << count;
  }
}

TEST(ConversationJson, LetsOnlySystemMessagesAddTools) {
  const auto message = [](const std::string& fields) { return fmt::format("[{{{}}}]", fields); };
  const std::string tools = fmt::format(R"("tools":[{}])", kTool);
  EXPECT_EQ(refused_field(message(R"("role":"user","content":"Hi",)" + tools)), "messages[0].tools");
  EXPECT_EQ(refused_field(message(R"("role":"assistant","content":"Hi",)" + tools)), "messages[0].tools");
  EXPECT_EQ(refused_field(message(R"("role":"system","content":"x",)" + tools)), "messages[0].content");
  EXPECT_EQ(refused_field(message(R"("role":"system","content":"x",)" + tools), raw_rules()), "");
  EXPECT_EQ(refused_field(message(R"("role":"system","content":"",)" + tools)), "");
  EXPECT_EQ(refused_field(message(R"("role":"developer",)" + tools)), "");
  EXPECT_EQ(refused_field(message(R"("role":"system","content":"x","tools":[])")), "");
  EXPECT_EQ(refused_field(message(R"("role":"system","tools":{})")), "messages[0].tools");
  EXPECT_EQ(refused_field(
                message(R"("role":"system","tools":[{"type":"function","function":{"name":"no.dots"}}])")),
            "messages[0].tools[0].function.name");
}

TEST(ConversationJson, RefusesAToolNameDeclaredTwiceAnywhere) {
  const std::string adds = fmt::format(R"({{"role":"system","tools":[{}]}})", kTool);
  EXPECT_EQ(refused_field(fmt::format("[{},{}]", adds, adds)), "messages[1].tools[0].function.name");
  EXPECT_EQ(refused_field(fmt::format(R"({{"messages":[{}],"tools":[{}]}})", adds, kTool)),
            "messages[0].tools[0].function.name");
  EXPECT_EQ(refused_field(fmt::format(R"({{"messages":[{}],"tools":[{}]}})", adds, kTool), raw_rules()), "");
}

TEST(ConversationJson, KnowsTheToolsOfSystemMessages) {
  const Conversation read =
      conversation_of(fmt::format(R"({{"messages":[{{"role":"system","tools":[{}]}}],"tool_choice":"required",
                       "tools":[{{"type":"function","function":{{"name":"g"}}}}]}})",
                                  kTool),
                      server_rules());
  EXPECT_EQ(read.tool_names, (std::vector<std::string>{"g", "f"}));
}

TEST(ConversationJson, ReadsToolChoices) {
  const auto choice = [](const std::string& value) {
    return with_fields(fmt::format(R"("tools":[{}],"tool_choice":{})", kTool, value));
  };
  EXPECT_EQ(conversation_of(choice("null"), server_rules()).tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(conversation_of(choice(R"("auto")"), server_rules()).tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(conversation_of(choice(R"("none")"), server_rules()).tool_choice, ToolChoice::kNone);
  EXPECT_EQ(conversation_of(choice(R"("required")"), server_rules()).tool_choice, ToolChoice::kRequired);
  for (const char* named :
       {R"({"type":"function","function":{"name":"f"}})", R"({"type":"function","name":"f"})"}) {
    const Conversation read = conversation_of(choice(named), server_rules());
    EXPECT_EQ(read.tool_choice, ToolChoice::kNamed);
    EXPECT_EQ(read.named_tool, "f");
  }
  for (const char* wrong :
       {R"("bogus")", "1", R"(["auto"])", "{}", R"({"type":"function","function":{"name":"g"}})",
        R"({"type":"custom","name":"f"})"}) {
    EXPECT_EQ(refused_field(choice(wrong)), "tool_choice") << wrong;
  }
}

TEST(ConversationJson, RequiresToolsWhereACallIsRequired) {
  EXPECT_EQ(refused_field(with_fields(R"("tool_choice":"required")")), "tool_choice");
  EXPECT_EQ(refused_field(with_fields(R"("tools":[],"tool_choice":"required")")), "tool_choice");
  EXPECT_EQ(refused_field(with_fields(R"("tool_choice":"auto")")), "");
  EXPECT_EQ(refused_field(with_fields(R"("tool_choice":"none")")), "");
}

TEST(ConversationJson, RefusesResponseFormatsItCannotRender) {
  const Refusal cases[] = {
      {R"(5)", ""},
      {R"("yaml")", ""},
      {R"({})", ".type"},
      {R"({"type":"yaml"})", ".type"},
      {R"({"type":"json_schema"})", ".json_schema"},
      {R"("json_schema")", ".json_schema"},
      {R"({"type":"json_schema","json_schema":7})", ".json_schema"},
      {R"({"type":"json_schema","json_schema":{"schema":{}}})", ".json_schema.name"},
      {R"({"type":"json_schema","json_schema":{"name":"","schema":{}}})", ".json_schema.name"},
      {R"({"type":"json_schema","json_schema":{"name":"a"}})", ".json_schema.schema"},
      {R"({"type":"json_schema","json_schema":{"name":"a","schema":"x"}})", ".json_schema.schema"},
      {R"({"type":"json_schema","json_schema":{"name":"a","strict":"yes","schema":{}}})",
       ".json_schema.strict"},
  };
  for (const Refusal& one : cases) {
    EXPECT_EQ(refused_field(with_fields("\"response_format\":" + one.request)), "response_format" + one.param)
        << one.request;
  }
}

TEST(ConversationJson, ReadsResponseFormats) {
  using Kind = ResponseFormat::Kind;
  const auto format = [](const std::string& value) {
    return conversation_of(with_fields("\"response_format\":" + value), server_rules()).response_format;
  };
  EXPECT_EQ(format("null").kind, Kind::kText);
  EXPECT_EQ(format(R"({"type":"text"})").kind, Kind::kText);
  EXPECT_EQ(format(R"("json_object")").kind, Kind::kJsonObject);
  EXPECT_EQ(format(R"({"type":"json_object"})").kind, Kind::kJsonObject);
  EXPECT_EQ(
      format(R"({"type":"json_schema","json_schema":{"name":"a","strict":false,"schema":{"b":1,"a":[ ]}}})")
          .schema_json,
      R"({"a":[],"b":1})");
}

TEST(ConversationJson, ContinuesOnlyALastAssistantMessage) {
  EXPECT_EQ(refused_field(R"([{"role":"assistant","content":"a","partial":true},{"role":"user"}])"),
            "messages[0].partial");
  EXPECT_EQ(refused_field(R"([{"role":"user","content":"a","partial":true}])"), "messages[0].partial");
  EXPECT_EQ(refused_field(R"([{"role":"assistant","content":"a","partial":"yes"}])"), "messages[0].partial");
  EXPECT_EQ(refused_field(R"([{"role":"user","content":"a","partial":false}])"), "");
  EXPECT_EQ(refused_field(R"([{"role":"assistant","partial":true,"tool_calls":[{"name":"f"}]}])"),
            "messages[0].tool_calls");
  EXPECT_EQ(
      refused_field(
          R"({"messages":[{"role":"assistant","partial":true}],"response_format":{"type":"json_object"}})"),
      "messages[0].partial");
  EXPECT_TRUE(
      conversation_of(R"([{"role":"assistant","partial":true}])", server_rules()).messages[0].partial);
}

TEST(ConversationJson, ReadsRolesInAnyCaseAndDevelopersAsSystem) {
  const Conversation read = conversation_of(
      R"([{"role":"Developer"},{"role":"SYSTEM"},{"role":"User"},{"role":"aSSistant"}])", server_rules());
  EXPECT_EQ(read.messages[0].role, Role::kSystem);
  EXPECT_EQ(read.messages[1].role, Role::kSystem);
  EXPECT_EQ(read.messages[2].role, Role::kUser);
  EXPECT_EQ(read.messages[3].role, Role::kAssistant);
}

TEST(ConversationJson, TakesTheTextOfPartsItDoesNotKnow) {
  const Conversation read = conversation_of(
      R"([{"role":"user","content":[{"type":"input_text","text":"a"},{"text":"b"}]}])", server_rules());
  ASSERT_EQ(read.messages[0].content.size(), 2U);
  EXPECT_EQ(read.messages[0].content[0].text, "a");
  EXPECT_EQ(read.messages[0].content[1].text, "b");
}

TEST(ConversationJson, ReadsReasoningUnderBothNames) {
  const Conversation read = conversation_of(
      R"([{"role":"assistant","reasoning_content":"a","reasoning":"b"},
          {"role":"assistant","reasoning_content":"","reasoning":"b"},
          {"role":"assistant","reasoning_content":null,"reasoning":"b"}])",
      server_rules());
  EXPECT_EQ(read.messages[0].reasoning, "a");
  EXPECT_EQ(read.messages[1].reasoning, "b");
  EXPECT_EQ(read.messages[2].reasoning, "b");
}

TEST(ConversationJson, AsksForImagesInOrderWithTheirPlaces) {
  ConversationRules rules = server_rules();
  std::vector<std::string> asked;
  rules.image_size = [&](const std::string& url, const JsonNode& part, const std::string& param) {
    asked.push_back(url + " " + param + " " + std::string(part.literal));
    return ImageSize{static_cast<std::uint32_t>(asked.size()), 5};
  };
  const Conversation read = conversation_of(
      R"([{"role":"user","content":[{"type":"image_url","image_url":"u"},{"type":"text","text":"t"}]},
          {"role":"user","content":[{"type":"image_url","image_url":{"url":"v","detail":"low"}},
                                    {"type":"image","source":7}]}])",
      rules);
  EXPECT_EQ(
      asked,
      (std::vector<std::string>{
          R"(u messages[0].content[0].image_url {"type":"image_url","image_url":"u"})",
          R"(v messages[1].content[0].image_url {"type":"image_url","image_url":{"url":"v","detail":"low"}})",
          R"( messages[1].content[1].image {"type":"image","source":7})"}));
  EXPECT_EQ(read.messages[1].content[1].image, (ImageSize{3, 5}));
}

TEST(ConversationJson, RefusesImagesWhereNobodyCanLookAtThem) {
  ConversationRules rules;
  EXPECT_EQ(refused_field(R"([{"role":"user","content":[{"type":"image_url","image_url":"u"}]}])", rules),
            "messages[0].content[0].image_url");
}

TEST(ConversationJson, DoesNotRepeatLongValuesInItsSentences) {
  try {
    conversation_of(R"([{"role":")" + std::string(1'000'000, 'x') + R"("}])");
    ADD_FAILURE() << "no error";
  } catch (const RequestError& error) {
    EXPECT_LT(std::string(error.what()).size(), 200U);
  }
}

TEST(ConversationJson, IgnoresFieldsThatAreNotAboutThePrompt) {
  EXPECT_EQ(rendered(R"({"messages":[{"role":"user","content":"Hi","x":1}],"temperature":"hot","n":[]})"),
            rendered(R"([{"role":"user","content":"Hi"}])"));
}

}  // namespace
}  // namespace perigee
