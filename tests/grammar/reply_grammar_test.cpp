#include "grammar/reply_grammar.h"

#include <gtest/gtest.h>

#include "grammar/follow.h"
#include "support/expect_error.h"
#include "text/json_tree.h"
#include "text/reply_parser.h"

namespace perigee {
namespace {

constexpr const char* kThought = "hm<|close|>think<|sep|>";
constexpr const char* kOpen = "<|open|>response<|sep|>";
constexpr const char* kClose = "<|close|>response<|sep|>";
constexpr const char* kEnd = "<|close|>message<|sep|><|end_of_msg|>";

// Does the grammar go all the way with these ids?
bool follows(const ReplyRules& rules, const std::string& markup) {
  Constraint constraint(test::nano_grammars().reply(rules));
  for (const TokenId id : test::nano_tokenizer().encode_markup(markup)) {
    if (!constraint.accept(id)) return false;
  }
  return constraint.finished();
}

std::string joined(std::initializer_list<std::string> parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

std::string call(const std::string& name, int index, const std::string& arguments) {
  return "<|open|>call tool=\"" + name + "\" index=\"" + std::to_string(index) + "\"<|sep|>" + arguments +
         "<|close|>call<|sep|>";
}

std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>" + value +
         "<|close|>argument<|sep|>";
}

std::string tools(const std::string& calls) {
  return "<|open|>tools<|sep|>" + calls + "<|close|>tools<|sep|>";
}

ReplyMessage parsed(std::span<const TokenId> ids, Channel start) {
  ReplyParser parser(test::nano_tokenizer(), {.start = start, .tools_allowed = true, .stop = {}});
  std::vector<ReplyDelta> deltas;
  parser.push(ids, deltas);
  return parser.finish(EndedBy::kStop, deltas);
}

const char* const kWeather =
    R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},)"
    R"("unit":{"type":"string","enum":["c","f"]},"where":{"type":["array","null"],"items":{"type":"number"}}},)"
    R"("required":["city","unit"]})";

ReplyRules weather(CallPolicy calls, ToolRules::Arguments arguments = ToolRules::Arguments::kSchema) {
  ReplyRules rules;
  rules.calls = calls;
  rules.tools = {{.name = "get_weather", .parameters = kWeather, .arguments = arguments}};
  return rules;
}

TEST(ReplyGrammar, JsonBeginsBehindTheThought) {
  ReplyRules rules;
  rules.response = ResponseForm::kJsonSchema;
  rules.schema = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";
  EXPECT_TRUE(follows(rules, joined({"any {thought} <", kThought, kOpen, R"({"a":1})", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({kThought, kOpen, R"({"a":"x"})", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({kThought, kOpen, R"(Sure: {"a":1})", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({kThought, kOpen, R"({"a":1})", "\n", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({R"({"a":1})", kClose, kEnd}))) << "the thought must be closed";
  rules.start = Channel::kResponse;
  EXPECT_TRUE(follows(rules, joined({R"({"a":1})", kClose, kEnd})));
  rules.start = Channel::kIdle;
  EXPECT_TRUE(follows(rules, joined({kOpen, R"({"a":1})", kClose, kEnd})));
}

TEST(ReplyGrammar, AnyObjectWillDoForJsonObject) {
  ReplyRules rules;
  rules.response = ResponseForm::kJsonObject;
  rules.start = Channel::kResponse;
  EXPECT_TRUE(follows(rules, joined({R"({"x":[1,{"y":null}]})", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({"[1]", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({R"({"x": 1})", kClose, kEnd})));
}

TEST(ReplyGrammar, FreeTextHoldsNoFrames) {
  const ReplyRules rules;
  EXPECT_TRUE(follows(rules, joined({"<|open|", kThought, kOpen, "text", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({"a<|open|>think<|sep|>", kThought, kOpen, "text", kClose, kEnd})));
  EXPECT_FALSE(follows(rules, joined({kThought, kOpen, "a<|end_of_msg|>"})));
  EXPECT_FALSE(follows(rules, joined({kThought, kOpen, "text", kClose, tools(call("f", 1, "")), kEnd})));
}

TEST(ReplyGrammar, RequiredCallsFollowTheResponse) {
  const ReplyRules rules = weather(CallPolicy::kRequired);
  const std::string arguments =
      argument("city", "string", "Köln \"am\" Rhein") + argument("unit", "string", "c");
  const std::string before = joined({kThought, kOpen, "One moment.", kClose});
  EXPECT_TRUE(follows(rules, joined({before, tools(call("get_weather", 1, arguments)), kEnd})));
  EXPECT_TRUE(follows(
      rules,
      joined({before, tools(call("get_weather", 1, arguments) + call("get_weather", 2, arguments)), kEnd})));
  EXPECT_FALSE(follows(rules, joined({before, kEnd})));
  EXPECT_FALSE(follows(rules, joined({before, tools(""), kEnd})));
  EXPECT_FALSE(follows(rules, joined({before, tools(call("get_time", 1, arguments)), kEnd})));
  EXPECT_FALSE(follows(rules, joined({before, tools(call("get_weather", 0, arguments)), kEnd})));
  ReplyRules single = rules;
  single.one_call = true;
  EXPECT_TRUE(follows(single, joined({before, tools(call("get_weather", 1, arguments)), kEnd})));
  EXPECT_FALSE(follows(
      single,
      joined({before, tools(call("get_weather", 1, arguments) + call("get_weather", 2, arguments)), kEnd})));
}

TEST(ReplyGrammar, AllowedCallsMayBeLeftOut) {
  const ReplyRules rules = weather(CallPolicy::kAllowed);
  const std::string arguments = argument("city", "string", "") + argument("unit", "string", "f");
  EXPECT_TRUE(follows(rules, joined({kThought, kOpen, "Hello.", kClose, kEnd})));
  EXPECT_TRUE(
      follows(rules, joined({kThought, kOpen, kClose, tools(call("get_weather", 1, arguments)), kEnd})));
}

TEST(ReplyGrammar, ArgumentsFollowTheirSchema) {
  const ReplyRules rules = weather(CallPolicy::kRequired);
  const auto fits = [&](const std::string& arguments) {
    return follows(rules, joined({kThought, kOpen, kClose, tools(call("get_weather", 1, arguments)), kEnd}));
  };
  const std::string city = argument("city", "string", "Paris"), unit = argument("unit", "string", "c");
  EXPECT_TRUE(fits(city + argument("days", "number", "3") + unit));
  EXPECT_TRUE(fits(city + unit + argument("where", "array", "[48.8,2.3]")));
  EXPECT_TRUE(fits(city + unit + argument("where", "null", "null")));
  EXPECT_FALSE(fits(city)) << "unit is required";
  EXPECT_FALSE(fits(unit + city)) << "another order";
  EXPECT_FALSE(fits(city + argument("days", "number", "3.5") + unit));
  EXPECT_FALSE(fits(city + argument("days", "integer", "3") + unit)) << "headers know no integers";
  EXPECT_FALSE(fits(city + argument("unit", "string", "k")));
  EXPECT_FALSE(fits(city + argument("unit", "string", "\"c\"")));
  EXPECT_FALSE(fits(city + unit + argument("where", "null", "[]")));
  EXPECT_FALSE(fits(city + unit + argument("more", "string", "x")));
}

TEST(ReplyGrammar, RelaxedArgumentsOnlyKeepTheForm) {
  const ReplyRules rules = weather(CallPolicy::kRequired, ToolRules::Arguments::kAny);
  const auto fits = [&](const std::string& arguments) {
    return follows(rules, joined({kThought, kOpen, kClose, tools(call("get_weather", 1, arguments)), kEnd}));
  };
  EXPECT_TRUE(fits(""));
  EXPECT_TRUE(fits(argument("a&amp;b", "string", "x\ny") + argument("n", "number", "-1.5e3") +
                   argument("o", "object", R"({"k":[true]})")));
  EXPECT_FALSE(fits(argument("n", "number", "many")));
  EXPECT_FALSE(fits(argument("n", "text", "x")));
  EXPECT_FALSE(fits(argument("", "string", "x")));
}

TEST(ReplyGrammar, ASchemaThatCannotBeFollowedIsRefusedOrRelaxed) {
  ReplyRules rules = weather(CallPolicy::kRequired);
  rules.tools[0].parameters = R"({"type":"object","properties":{"n":{"type":"integer","multipleOf":5}}})";
  EXPECT_ERROR(test::nano_grammars().reply(rules), ErrorCode::kUnsupported, "\"multipleOf\"");
  EXPECT_ERROR(test::nano_grammars().reply(rules), ErrorCode::kUnsupported,
               "tool get_weather at #/properties/n");
  rules.tools[0].arguments = ToolRules::Arguments::kSchemaIfPossible;
  const std::string calls = tools(call("get_weather", 1, argument("n", "number", "7")));
  EXPECT_TRUE(follows(rules, joined({kThought, kOpen, kClose, calls, kEnd})));
  rules.tools[0].parameters = kWeather;
  EXPECT_FALSE(follows(rules, joined({kThought, kOpen, kClose, calls, kEnd})));
  rules.tools[0].parameters = R"({"type":"array"})";
  rules.tools[0].arguments = ToolRules::Arguments::kSchema;
  EXPECT_ERROR(test::nano_grammars().reply(rules), ErrorCode::kUnsupported, "are an object");
}

TEST(ReplyGrammar, NamesAreEscapedAsInFrames) {
  ReplyRules rules;
  rules.calls = CallPolicy::kRequired;
  rules.tools = {
      {.name = "f",
       .parameters = R"({"type":"object","properties":{"a\"&ü":{"type":"boolean"}},"required":["a\"&ü"]})",
       .arguments = ToolRules::Arguments::kSchema}};
  const std::string calls = tools(call("f", 1, argument("a&quot;&amp;ü", "boolean", "true")));
  EXPECT_TRUE(follows(rules, joined({kThought, kOpen, kClose, calls, kEnd})));
}

TEST(ReplyGrammar, WalksOfAllowedTokensAreRepliesWithValidCalls) {
  ReplyRules rules = weather(CallPolicy::kRequired);
  rules.tools.push_back({.name = "anything", .parameters = "", .arguments = ToolRules::Arguments::kAny});
  rules.response = ResponseForm::kJsonObject;
  const auto grammar = test::nano_grammars().reply(rules);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    test::RandomWalk walk(grammar, seed, 120);
    ASSERT_TRUE(walk.finish()) << walk.text();
    const ReplyMessage message = parsed(walk.ids(), Channel::kThink);
    EXPECT_EQ(message.finish, FinishReason::kToolCalls) << walk.text();
    EXPECT_TRUE(is_json_value(message.content.value_or(""))) << walk.text();
    for (const std::string& note : message.notes) EXPECT_EQ(note, "bad_utf8") << walk.text();
    ASSERT_FALSE(message.calls.empty());
    for (const ReplyCall& one : message.calls) {
      const JsonTree arguments = JsonTree::parse(one.arguments, "arguments");
      if (one.name != "get_weather") continue;
      ASSERT_TRUE(arguments.root().find("city") && arguments.root().find("unit")) << one.arguments;
      EXPECT_TRUE(arguments.root().find("city")->is(JsonKind::kString));
      const std::string& unit = arguments.root().find("unit")->text;
      EXPECT_TRUE(unit == "c" || unit == "f") << one.arguments;
    }
  }
}

TEST(ReplyGrammar, ASamplerAsksForTheIdsOfTheNextToken) {
  ReplyRules rules;
  rules.start = Channel::kResponse;
  rules.response = ResponseForm::kJsonSchema;
  rules.schema = R"({"const":"ab"})";
  Constraint constraint(test::nano_grammars().reply(rules));
  std::vector<std::uint64_t> bits(test::nano_tokenizer().vocabulary().size() / 64 + 1, 0);
  const std::vector<TokenId> quote = test::nano_tokenizer().encode_plain("\"");
  constraint.filter({}, bits);
  EXPECT_TRUE(bits[quote[0] / 64] >> (quote[0] % 64) & 1);
  const TokenId a = *test::nano_tokenizer().vocabulary().ordinary("a");
  EXPECT_FALSE(bits[a / 64] >> (a % 64) & 1);
  std::ranges::fill(bits, 0);
  const std::vector<TokenId> so_far = {quote[0], a};
  constraint.filter(so_far, bits);
  const TokenId b = *test::nano_tokenizer().vocabulary().ordinary("b");
  EXPECT_TRUE(bits[b / 64] >> (b % 64) & 1);
  EXPECT_FALSE(bits[a / 64] >> (a % 64) & 1);
  EXPECT_ERROR(constraint.filter(std::vector<TokenId>{quote[0], a, a}, bits), ErrorCode::kInternal, "allow");
}

TEST(ReplyGrammar, TextThatThePromptHoldsAlreadyCounts) {
  ReplyRules rules;
  rules.start = Channel::kResponse;
  rules.response = ResponseForm::kJsonObject;
  Constraint constraint(test::nano_grammars().reply(rules));
  EXPECT_FALSE(constraint.accept_text("[1"));
  EXPECT_TRUE(constraint.accept_text(R"({"a":[1)"));
  EXPECT_TRUE(constraint.accept_text(R"(,2]})"));
}

TEST(ReplyGrammar, RulesWithoutToolsAllowNoCalls) {
  ReplyRules rules;
  rules.calls = CallPolicy::kRequired;
  EXPECT_ERROR(test::nano_grammars().reply(rules), ErrorCode::kUsage, "none are declared");
}

}  // namespace
}  // namespace perigee
