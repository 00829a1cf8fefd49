// POST /v1/responses. What a prompt must be is known from the chat route, which has committed requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/reply_grammar.h"
#include "serve/dialect_fixture.h"
#include "support/vocabularies.h"

namespace perigee {
namespace {

using nlohmann::json;
using test::body_of;
using test::DialectFixture;
using test::events_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kRoute = "/v1/responses";
const std::string kTool =
    R"({"type":"function","name":"get_time","description":"d","parameters":{"type":"object","properties":{}}})";
const std::string kChatTool = R"({"type":"function","function":{"name":"get_time","description":"d",)"
                              R"("parameters":{"type":"object","properties":{}}}})";
const std::string kCallItem =
    R"({"type":"function_call","call_id":"c1","name":"get_time","arguments":"{\"city\":\"Rome\"}"})";
const std::string kOutputItem = R"({"type":"function_call_output","call_id":"c1","output":"09:30"})";

std::vector<TokenId> markup(const std::string& text) {
  return test::nano_tokenizer().encode_markup(text);
}

const std::string kReply =
    "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello<|close|>response<|sep|><|close|>message<|sep|>"
    "<|end_of_msg|>";
const std::string kCallHead =
    "Hm.<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|><|open|>call "
    "tool=\"get_time\" index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>Rome";
const std::string kCallReply =
    kCallHead +
    "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";

std::string body(const std::string& more) {
  return R"({"input":"Hi")" + (more.empty() ? "" : "," + more) + "}";
}

class Responses : public ::testing::Test {
 protected:
  std::shared_ptr<test::RecordedExchange> ask(const std::string& text) { return server.post(kRoute, text); }

  json answer(const std::string& text) {
    const auto exchange = ask(text);
    EXPECT_EQ(exchange->head.status, 200) << exchange->head.body;
    return body_of(*exchange);
  }

  json refused(const std::string& text) {
    const auto exchange = ask(text);
    EXPECT_EQ(exchange->head.status, 400) << text << exchange->head.body << exchange->text();
    return body_of(*exchange).value("error", json::object());
  }

  // Of the latest request.
  const Job& job() const { return server.service.jobs.back(); }
  std::string prompt() const { return test::nano_tokenizer().decode(job().request.prompt); }

  DialectFixture server{test::nano_tokenizer()};
};

// The types of events; what is repeated counts once.
std::vector<std::string> types_of(const std::vector<json>& events) {
  std::vector<std::string> types;
  for (const json& event : events) {
    const std::string type = event["type"];
    if (types.empty() || types.back() != type) types.push_back(type);
  }
  return types;
}

// All deltas of the item at `index`.
std::string joined(const std::vector<json>& events, std::size_t index) {
  std::string text;
  for (const json& event : events) {
    if (event.contains("delta") && event["output_index"] == index) text += event["delta"].get<std::string>();
  }
  return text;
}

TEST_F(Responses, AnswersInItems) {
  server.service.script = markup(kReply);
  server.service.cached = 4;
  const json response = answer(body(R"("metadata":{"a":"b"},"temperature":0.5,"max_output_tokens":90)"));
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["model"], "kimi-k3");
  EXPECT_EQ(response["metadata"], json({{"a", "b"}}));
  EXPECT_EQ(response["temperature"], 0.5);
  EXPECT_EQ(response["max_output_tokens"], 90);
  EXPECT_EQ(response["text"], json({{"format", {{"type", "text"}}}}));
  EXPECT_EQ(response["tool_choice"], "auto");
  EXPECT_EQ(response["store"], false);
  const json& output = response["output"];
  ASSERT_EQ(output.size(), 2U);
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["summary"], json::array());
  EXPECT_EQ(output[0]["content"], json::array({{{"type", "reasoning_text"}, {"text", "Hm."}}}));
  EXPECT_FALSE(output[0].contains("encrypted_content"));
  EXPECT_EQ(output[1]["type"], "message");
  EXPECT_EQ(output[1]["role"], "assistant");
  EXPECT_EQ(output[1]["content"][0]["type"], "output_text");
  EXPECT_EQ(output[1]["content"][0]["text"], "Hello");
  for (const json& item : output) EXPECT_EQ(item["status"], "completed");
  const json& usage = response["usage"];
  EXPECT_EQ(usage["output_tokens"], markup(kReply).size() - 1);
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(usage["output_tokens_details"]["reasoning_tokens"], markup("Hm.").size());
  EXPECT_EQ(usage["total_tokens"], usage["input_tokens"].get<int>() + usage["output_tokens"].get<int>());
}

TEST_F(Responses, CallsFunctions) {
  server.service.script = markup(kCallReply);
  const json response = answer(body("\"tools\":[" + kTool + "]"));
  ASSERT_EQ(response["output"].size(), 2U);
  const json& call = response["output"][1];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "get_time");
  EXPECT_EQ(call["arguments"], R"({"city":"Rome"})");
  EXPECT_EQ(call["call_id"], "get_time_0");
  EXPECT_NE(call["id"], call["call_id"]);
  EXPECT_EQ(response["tools"], json::array({json::parse(kTool)}));
}

TEST_F(Responses, SaysWhatChatSays) {
  const std::string schema = R"("schema":{"type":"integer"},"strict":false)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"input":"Hi"})", R"({"messages":[{"role":"user","content":"Hi"}]})"},
      {R"({"input":"Hi","instructions":"Be brief."})",
       R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]})"},
      {R"({"input":[{"role":"developer","content":"Be brief."},{"type":"message","role":"user","content":)"
       R"([{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]})",
       R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":)"
       R"([{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})"},
      {R"({"input":[{"role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[],"content":)"
       R"([{"type":"reasoning_text","text":"Hm."}]},{"type":"message","role":"assistant","content":)"
       R"([{"type":"output_text","text":"Looking.","annotations":[]}]},)" +
           kCallItem + "," + kOutputItem + R"(]})",
       R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"Hm.","content":)"
       R"("Looking.","tool_calls":[{"id":"c1","function":{"name":"get_time","arguments":)"
       R"("{\"city\":\"Rome\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"09:30"}]})"},
      // Two turns of the model behind each other stay two; reasoning begins one.
      {R"({"input":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},)"
       R"({"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"c"}]},)"
       R"({"role":"user","content":"d"}]})",
       R"({"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},)"
       R"({"role":"assistant","reasoning_content":"c"},{"role":"user","content":"d"}]})"},
      {R"({"input":"Hi","tool_choice":"required","tools":[)" + kTool + "]}",
       R"({"messages":[{"role":"user","content":"Hi"}],"tool_choice":"required","tools":[)" + kChatTool +
           "]}"},
      {R"({"input":"Hi","text":{"format":{"type":"json_schema","name":"n",)" + schema + "}}}",
       R"({"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_schema","json_schema":)"
       R"({"name":"n",)" +
           schema + "}}}"},
      {R"({"input":"Hi","text":{"format":{"type":"json_object"},"verbosity":"low"}})",
       R"({"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"}})"},
      {R"({"input":"Hi","reasoning":{"effort":"low","summary":"auto"}})",
       R"({"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"low"})"},
      {R"({"input":"Hi","reasoning":{"effort":"none"}})",
       R"({"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"none"})"},
  };
  for (const auto& [here, chat] : cases) {
    ASSERT_EQ(ask(here)->head.status, 200) << here << ask(here)->head.body;
    const std::string said = prompt();
    ASSERT_EQ(server.post("/v1/chat/completions", chat)->head.status, 200) << chat;
    EXPECT_EQ(said, prompt()) << here;
  }
}

// A result may come later than right behind its call: the item itself says which one it answers.
TEST_F(Responses, FindsTheCallOfALateOutput) {
  ask(R"({"input":[)" + kCallItem + R"(,{"role":"assistant","content":"Wait."},)" + kOutputItem + "]}");
  EXPECT_THAT(prompt(), HasSubstr(R"(role="tool" tool="get_time" index="1"<|sep|>09:30)"));
}

TEST_F(Responses, TakesSealedReasoningBack) {
  server.service.script = markup(kReply);
  const json response = answer(body(R"("include":["reasoning.encrypted_content"],"store":false)"));
  json item = response["output"][0];
  item.erase("content");
  ask(json({{"input", {item, {{"role", "user"}, {"content", "And?"}}}}}).dump());
  EXPECT_THAT(prompt(), HasSubstr("think<|sep|>Hm.<|close|>think"));
  item["encrypted_content"] = "gAAAAABsomebody-elses";
  ask(json({{"input", {item, {{"role", "user"}, {"content", "And?"}}}}}).dump());
  EXPECT_THAT(prompt(), Not(HasSubstr("gAAAA")));
}

TEST_F(Responses, PassesTheRequestOnToTheEngine) {
  ask(body(R"("temperature":0.5,"top_p":0.25,"seed":7,"top_k":3,"max_output_tokens":11)"));
  EXPECT_EQ(job().request.sampling.temperature, 0.5);
  EXPECT_EQ(job().request.sampling.top_p, 0.25);
  EXPECT_EQ(job().request.sampling.seed, 7U);
  EXPECT_EQ(job().request.sampling.top_k, 3U);
  EXPECT_EQ(job().request.max_tokens, 11U);
}

TEST_F(Responses, SaysThatTheLimitCutIt) {
  server.service.script = markup("Hm, well");
  const json response = answer(body(R"("max_output_tokens":2)"));
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"], json({{"reason", "max_output_tokens"}}));
  ASSERT_EQ(response["output"].size(), 1U);
  EXPECT_EQ(response["output"][0]["type"], "reasoning");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
}

TEST_F(Responses, RefusesByPlace) {
  const std::string user = R"({"role":"user","content":"Hi"})";
  const auto item = [](const std::string& text) {
    return R"({"input":[{"role":"user","content":"x"},)" + text + "]}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "input"},
      {R"({"input":3})", "input"},
      {R"({"input":[]})", "input"},
      {R"({"input":[{"type":"reasoning","summary":[]}]})", "input"},
      {item("3"), "input[1]"},
      {item("{}"), "input[1].type"},
      {item(R"({"type":7})"), "input[1].type"},
      {item(R"({"type":"web_search_call"})"), "input[1].type"},
      {item(R"({"type":"item_reference","id":"msg_1"})"), "input[1].type"},
      {item(R"({"role":"tool","content":"x"})"), "input[1].role"},
      {item(R"({"type":"message","content":"x"})"), "input[1].role"},
      {item(R"({"role":"user"})"), "input[1].content"},
      {item(R"({"role":"user","content":5})"), "input[1].content"},
      {item(R"({"role":"user","content":["x"]})"), "input[1].content[0]"},
      {item(R"({"role":"user","content":[{"text":"x"}]})"), "input[1].content[0].type"},
      {item(R"({"role":"user","content":[{"type":"input_file","file_id":"f"}]})"),
       "input[1].content[0].type"},
      {item(R"({"role":"user","content":[{"type":"input_text"}]})"), "input[1].content[0].text"},
      {item(R"({"role":"user","content":[{"type":"input_image"}]})"), "input[1].content[0].image_url"},
      {item(R"({"role":"user","content":[{"type":"input_text","text":"a"},)"
            R"({"type":"input_image","image_url":"https://x/y.png"}]})"),
       "input[1].content[1].image_url"},
      {item(R"({"type":"function_call","name":"f","arguments":"{}"})"), "input[1].call_id"},
      {item(R"({"type":"function_call","call_id":"c","arguments":"{}"})"), "input[1].name"},
      {item(R"({"type":"function_call","call_id":"c","name":"","arguments":"{}"})"), "input[1].name"},
      {item(R"({"type":"function_call","call_id":"c","name":"f"})"), "input[1].arguments"},
      {item(R"({"type":"function_call","call_id":"c","name":"f","arguments":{}})"), "input[1].arguments"},
      {item(kOutputItem), "input[1].call_id"},
      {item(kCallItem + R"(,{"type":"function_call_output","call_id":"c1"})"), "input[2].output"},
      {item(kCallItem + R"(,{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image",)"
                        R"("image_url":"https://x/y.png"}]})"),
       "input[2].output[0].image_url"},
      {item(R"({"type":"reasoning","content":"x"})"), "input[1].content"},
      {item(R"({"type":"reasoning","content":[{}]})"), "input[1].content[0].text"},
      {item(R"({"type":"reasoning","encrypted_content":1})"), "input[1].encrypted_content"},
      {body(R"("instructions":["x"])"), "instructions"},
      {body(R"("tools":{})"), "tools"},
      {body(R"("tools":[3])"), "tools[0]"},
      {body(R"("tools":[{"type":"web_search"}])"), "tools[0].type"},
      {body(R"("tools":[{"type":"function"}])"), "tools[0].name"},
      {body(R"("tools":[{"type":"function","name":"a b"}])"), "tools[0].name"},
      {body(R"("tools":[{"type":"function","name":"f","parameters":[]}])"), "tools[0].parameters"},
      {body("\"tools\":[" + kTool + "," + kTool + "]"), "tools[1].name"},
      {body(R"("tool_choice":"required")"), "tool_choice"},
      {body(R"("tool_choice":{"type":"web_search"})"), "tool_choice.type"},
      {body(R"("tool_choice":{"type":"function","name":"f"})"), "tool_choice"},
      {body(R"("text":3)"), "text"},
      {body(R"("text":{"format":{"type":"xml"}})"), "text.format.type"},
      {body(R"("text":{"format":{"type":"json_schema","schema":{}}})"), "text.format.name"},
      {body(R"("text":{"format":{"type":"json_schema","name":"n"}})"), "text.format.schema"},
      {body(R"("text":{"format":{"type":"json_schema","name":"n","schema":{},"strict":1}})"),
       "text.format.strict"},
      {body(R"("reasoning":"low")"), "reasoning"},
      {body(R"("reasoning":{"effort":"huge"})"), "reasoning.effort"},
      {body(R"("max_output_tokens":0)"), "max_output_tokens"},
      {body(R"("max_output_tokens":9999999999)"), "max_output_tokens"},
      {body(R"("temperature":3)"), "temperature"},
      {body(R"("include":["message.output_text.logprobs"])"), "include[0]"},
      {body(R"("include":[1])"), "include[0]"},
      {body(R"("top_logprobs":2)"), "top_logprobs"},
      {body(R"("metadata":{"a":1})"), "metadata"},
      {body(R"("background":true)"), "background"},
      {body(R"("truncation":"auto")"), "truncation"},
      {body(R"("previous_response_id":"resp_1")"), "previous_response_id"},
      {body(R"("conversation":"conv_1")"), "conversation"},
      {body(R"("prompt":{"id":"p"})"), "prompt"},
  };
  for (const auto& [text, param] : cases) {
    const json error = refused(text);
    EXPECT_EQ(error["param"], param) << text;
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_THAT(error["message"].get<std::string>(), Not(HasSubstr("messages"))) << text;
  }
  EXPECT_TRUE(server.service.jobs.empty());
  EXPECT_THAT(refused(body(R"("previous_response_id":"resp_1")"))["message"].get<std::string>(),
              HasSubstr("send all items of the conversation in input"));
}

TEST_F(Responses, NamesWhatIsTooLong) {
  server.context.model.context_tokens = 20;
  const json error = refused(body(""));
  EXPECT_EQ(error["param"], "input");
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(), ::testing::StartsWith("input: "));
}

TEST_F(Responses, RefusesASchemaThatCannotBeFollowed) {
  const ReplyGrammars grammars(test::nano_tokenizer().vocabulary());
  server.context.grammars = &grammars;
  const std::string schema = R"({"type":"string","pattern":"(?<=a)b"})";
  EXPECT_EQ(refused(body(R"("text":{"format":{"type":"json_schema","name":"n","schema":)" + schema +
                         "}}"))["param"],
            "text.format.schema");
  EXPECT_EQ(ask(body(R"("tools":[{"type":"function","name":"f","strict":true,"parameters":)"
                     R"({"type":"object","properties":{"a":{"type":"integer"}}}}],"tool_choice":"required")"))
                ->head.status,
            200);
  EXPECT_TRUE(static_cast<bool>(job().request.sampling.filter));
  server.context.grammars = nullptr;
}

TEST_F(Responses, StreamsEventsInOrder) {
  server.service.script = markup(kReply);
  const auto exchange = ask(body(R"("stream":true)"));
  const std::vector<json> events = events_of(exchange->text());
  EXPECT_THAT(
      types_of(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.reasoning_text.delta",
                  "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
                  "response.output_item.added", "response.content_part.added", "response.output_text.delta",
                  "response.output_text.done", "response.content_part.done", "response.output_item.done",
                  "response.completed"));
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  EXPECT_EQ(joined(events, 0), "Hm.");
  EXPECT_EQ(joined(events, 1), "Hello");
  EXPECT_THAT(exchange->text(), ::testing::StartsWith("event: response.created\ndata: {"));
  EXPECT_THAT(exchange->text(), Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(exchange->ended);
}

// What a client that keeps only the last event knows is what the events before it said.
TEST_F(Responses, EndsWithWhatItStreamed) {
  server.service.script = markup(kCallReply);
  const auto exchange = ask(body("\"stream\":true,\"tools\":[" + kTool + "]"));
  const std::vector<json> events = events_of(exchange->text());
  std::vector<json> done;
  for (const json& event : events) {
    if (event["type"] == "response.output_item.done") done.push_back(event["item"]);
  }
  const json& response = events.back()["response"];
  EXPECT_EQ(response["output"], json(done));
  EXPECT_EQ(response["id"], events.front()["response"]["id"]);
  EXPECT_EQ(events.front()["response"]["status"], "in_progress");
  EXPECT_TRUE(events.front()["response"]["usage"].is_null());
  EXPECT_EQ(response["output"][1]["arguments"], R"({"city":"Rome"})");
  EXPECT_EQ(joined(events, 1), R"({"city":"Rome"})");
  EXPECT_EQ(response["usage"]["output_tokens"], markup(kCallReply).size() - 1);
  EXPECT_THAT(types_of(events), ::testing::Contains("response.function_call_arguments.done"));
}

TEST_F(Responses, StreamsTheSameAsTheWholeAnswer) {
  for (const std::string& script : {kReply, kCallReply}) {
    server.service.script = markup(script);
    const std::string more = "\"tools\":[" + kTool + "]";
    json whole = answer(body(more));
    json last = events_of(ask(body("\"stream\":true," + more))->text()).back()["response"];
    for (json* response : {&whole, &last}) {
      for (const char* own : {"id", "created_at", "completed_at"}) response->erase(own);
      for (json& item : (*response)["output"]) item.erase("id");
    }
    EXPECT_EQ(last, whole);
  }
}

TEST_F(Responses, MarksACallThatWasCut) {
  server.service.script = markup(kCallHead);
  const auto exchange = ask(body("\"stream\":true,\"tools\":[" + kTool + "]"));
  const std::vector<json> events = events_of(exchange->text());
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_EQ(events.back()["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(events.back()["response"]["output"][1]["status"], "incomplete");
  EXPECT_EQ(events.back()["response"]["output"][0]["status"], "completed");
}

// The model closed a response that it had never opened: its "reasoning" was the answer.
TEST_F(Responses, ShowsAnAnswerThatLookedLikeReasoning) {
  server.service.script = markup("Hello<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>");
  const std::vector<json> events = events_of(ask(body(R"("stream":true)"))->text());
  const json& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 2U);
  EXPECT_EQ(output[1]["content"][0]["text"], "Hello");
  EXPECT_EQ(joined(events, 1), "Hello");
  EXPECT_EQ(answer(body(""))["output"][0]["content"][0]["text"], "Hello");
}

TEST_F(Responses, TellsAFailureInsideTheStream) {
  server.service.script = markup("Hm");
  server.service.failure = std::make_exception_ptr(Error(ErrorCode::kIo, "/secret/path: cannot read"));
  const auto exchange = ask(body(R"("stream":true)"));
  const json last = events_of(exchange->text()).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"]["code"], "server_error");
  EXPECT_THAT(exchange->text(), Not(HasSubstr("secret")));
  EXPECT_TRUE(exchange->ended);
  EXPECT_EQ(ask(body(""))->head.status, 500);
}

TEST_F(Responses, SaysWhenToComeBack) {
  server.service.refusal = Refusal{Refusal::Reason::kQueueFull, 2.5, "the queue is full"};
  const auto exchange = ask(body(R"("stream":true)"));
  EXPECT_EQ(exchange->head.status, 429);
  EXPECT_EQ(exchange->head.headers.find("Retry-After"), "3");
  EXPECT_FALSE(exchange->streaming);
}

TEST_F(Responses, StopsForAReaderThatIsGone) {
  server.service.script = markup(kReply);
  const auto exchange = std::make_shared<test::RecordedExchange>();
  exchange->most_writes = 3;
  server.router.handle({.method = "POST",
                        .path = kRoute,
                        .query = {},
                        .headers = {},
                        .body = body(R"("stream":true)"),
                        .peer = "t"},
                       exchange);
  EXPECT_EQ(exchange->text().find("Hello"), std::string::npos);
}

TEST_F(Responses, RepeatsWhatWasSentUnlessItIsLong) {
  const std::string echoed =
      R"("tool_choice":{"type":"function","name":"get_time"},"instructions":"Be \ud800.",)"
      R"("text":{"format":{"type":"json_schema","name":"n","schema":{"const":1e999}}},)"
      R"("reasoning":{"effort":"high"},"parallel_tool_calls":false,"tools":[)" +
      kTool + "]";
  const json response = answer(body(echoed));
  EXPECT_EQ(response["instructions"], "Be \uFFFD.");
  EXPECT_EQ(response["tool_choice"]["name"], "get_time");
  EXPECT_TRUE(response["text"]["format"]["schema"]["const"].is_null());
  EXPECT_EQ(response["reasoning"]["effort"], "high");
  EXPECT_EQ(response["parallel_tool_calls"], false);
  const std::string longest(std::size_t{300} << 10, 'a');
  EXPECT_TRUE(answer(body("\"instructions\":\"" + longest + "\""))["instructions"].is_null());
}

}  // namespace
}  // namespace perigee
