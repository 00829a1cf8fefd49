// Answers, streams and errors of Anthropic's dialect, beyond the committed ones.
#include "serve/anthropic_fixture.h"

namespace perigee {
namespace {

using namespace test;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AnthropicReply : public AnthropicFixture {};

struct Ending {
  std::string script;
  std::string more;
  std::string reason;
  json sequence;
  std::string text;
};

TEST_F(AnthropicReply, SaysWhyItStoppedInAnswersAndStreams) {
  const std::vector<Ending> endings = {
      {kReply, "", "end_turn", nullptr, "Hello"},
      {kReply, R"("stop_sequences":["xx","ll"])", "stop_sequence", "ll", "He"},
      {calling(call("get_time", "1", "")), kTools, "tool_use", nullptr, ""},
      {kReply, R"("max_tokens":1)", "max_tokens", nullptr, ""},
  };
  for (const Ending& ending : endings) {
    server.service.script = markup(ending.script);
    const json whole = answer(request(kHi, ending.more));
    EXPECT_EQ(whole["stop_reason"], ending.reason);
    EXPECT_EQ(whole["stop_sequence"], ending.sequence) << ending.reason;
    const JoinedMessage streamed =
        stream(request(kHi, R"("stream":true)" + (ending.more.empty() ? "" : "," + ending.more)));
    EXPECT_EQ(streamed.end["delta"],
              json({{"stop_reason", ending.reason}, {"stop_sequence", ending.sequence}}));
    EXPECT_EQ(streamed.end["usage"], whole["usage"]) << ending.reason;
    std::string text;
    for (const json& block : streamed.content) text += block.value("text", "");
    EXPECT_EQ(text, ending.text);
  }
}

TEST_F(AnthropicReply, LetsTheContextEndAReply) {
  answer(request(kHi));
  const std::size_t ids = job().request.prompt.size();
  server.context.model.context_tokens = ids + 2;
  const json message = answer(request(kHi));
  EXPECT_EQ(job().request.max_tokens, 2U);
  EXPECT_EQ(message["stop_reason"], "model_context_window_exceeded");
  server.context.model.context_tokens = ids + 400;
  answer(request(kHi));
  EXPECT_EQ(job().request.max_tokens, 400U);
  // Words by which clients know that they must shorten the conversation.
  server.context.model.context_tokens = ids;
  EXPECT_THAT(refused(request(kHi)), HasSubstr("prompt is too long"));
}

// What the blocks of a stream add up to, in the form of a whole answer, without what differs every time.
json content_of(json content) {
  for (json& block : content) {
    block.erase("id");
    block.erase("signature");
    if (block.contains("input") && block["input"].is_string()) {
      block["input"] = json::parse(block["input"].get<std::string>());
    }
  }
  return content;
}

TEST_F(AnthropicReply, StreamsWhatItAnswers) {
  const std::string calls =
      call("get_time", "1", argument("city", "string", "Rome")) +
      call("get_time", "2", argument("n", "number", "12") + argument("b", "object", "{}"));
  for (const std::string& script :
       {kReply, calling(calls), std::string("Hm."), std::string("<|end_of_msg|>")}) {
    server.service.script = markup(script);
    const json whole = answer(request(kHi, kTools));
    const JoinedMessage streamed = stream(request(kHi, kTools + R"(,"stream":true)"));
    EXPECT_EQ(content_of(streamed.content), content_of(whole["content"])) << script;
    EXPECT_EQ(streamed.message["model"], "kimi-k3");
    EXPECT_THAT(streamed.message["id"].get<std::string>(), StartsWith("msg_"));
    for (const json& block : streamed.content) {
      if (block["type"] == "tool_use") {
        EXPECT_THAT(block["id"].get<std::string>(), StartsWith("toolu_"));
      }
    }
  }
}

TEST_F(AnthropicReply, OpensBlocksInTheOrderOfTheReply) {
  server.service.script = markup(calling(call("get_time", "1", argument("city", "string", "Rome"))));
  EXPECT_THAT(stream(request(kHi, kTools + R"(,"stream":true)")).order,
              ElementsAre("message_start", "content_block_start thinking",
                          "content_block_delta thinking_delta", "content_block_stop",
                          "content_block_start tool_use", "content_block_delta input_json_delta",
                          "content_block_stop", "message_delta", "message_stop"));
}

TEST_F(AnthropicReply, ShowsAnAnswerThatWasTakenForAThought) {
  server.service.script = markup("Hello<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>");
  const json whole = answer(request(kHi));
  EXPECT_EQ(whole["content"], json::parse(R"([{"type":"text","text":"Hello"}])"));
  const json streamed = stream(request(kHi, R"("stream":true)")).content;
  ASSERT_EQ(streamed.size(), 2U);
  EXPECT_EQ(streamed[0]["thinking"], "Hello");
  EXPECT_EQ(streamed[1]["text"], "Hello");
}

TEST_F(AnthropicReply, KeepsTheModelsOwnNumbersInInput) {
  server.service.script = markup(calling(call("get_time", "1", argument("n", "number", "1e2"))));
  const auto exchange = server.post(kMessages, request(kHi, kTools));
  EXPECT_THAT(exchange->head.body, HasSubstr(R"("input":{"n":1e2})"));
}

TEST_F(AnthropicReply, WrapsInputThatIsNoObject) {
  for (const std::string raw : {"{\"n\": Rome", "[1]"}) {
    server.service.script = markup(
        calling(call("get_time", "1", "<|open|>json type=\"object\"<|sep|>" + raw + "<|close|>json<|sep|>")));
    const json message = answer(request(kHi, kTools));
    EXPECT_EQ(message["content"][1]["input"], json({{"INVALID_JSON", raw}}));
  }
}

TEST_F(AnthropicReply, CountsUsage) {
  server.service.cached = 4;
  const json message = answer(request(kHi));
  const json counted = body_of(*server.post(kCount, R"({"messages":[)" + kHi + "]}"));
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 4);
  EXPECT_EQ(message["usage"]["cache_creation_input_tokens"], 0);
  EXPECT_EQ(message["usage"]["input_tokens"].get<int>() + 4, counted["input_tokens"]);
  EXPECT_EQ(message["usage"]["output_tokens"], markup(kReply).size() - 1);  // the end token is not waited for
}

TEST_F(AnthropicReply, CountsWithoutTheModel) {
  const std::string tool = R"({"messages":[)" + kHi + "]," + kTools + "}";
  const int with_tools = body_of(*server.post(kCount, tool))["input_tokens"];
  const int without = body_of(*server.post(kCount, R"({"messages":[)" + kHi + "]}"))["input_tokens"];
  EXPECT_GT(with_tools, without);
  EXPECT_TRUE(server.service.jobs.empty());
  EXPECT_THAT(refused(R"({"messages":[{"role":"user"}]})", kCount),
              StartsWith("messages[0].content is missing"));
}

TEST_F(AnthropicReply, AnswersErrorsInItsOwnShape) {
  const auto type_of = [&](const RecordedExchange& exchange, int status) {
    EXPECT_EQ(exchange.head.status, status);
    return body_of(exchange)["error"]["type"];
  };
  EXPECT_EQ(type_of(*server.get(kMessages), 405), "invalid_request_error");
  EXPECT_EQ(type_of(*server.post(kMessages + "/batches", "{}"), 404), "not_found_error");
  server.service.refusal = Refusal{Refusal::Reason::kQueueFull, 2.5, "the queue is full"};
  const auto full = server.post(kMessages, request(kHi, R"("stream":true)"));
  EXPECT_EQ(type_of(*full, 529), "overloaded_error");
  EXPECT_EQ(full->head.headers.find("Retry-After"), "3");
  server.service.refusal = Refusal{Refusal::Reason::kDraining, 0, "stopping"};
  EXPECT_EQ(type_of(*server.post(kMessages, request(kHi)), 503), "overloaded_error");
  server.service.refusal.reset();
  server.service.failure = std::make_exception_ptr(Error(ErrorCode::kIo, "/secret/path: cannot read"));
  EXPECT_EQ(type_of(*server.post(kMessages, request(kHi)), 500), "api_error");
}

TEST_F(AnthropicReply, TellsAFailureInsideTheStream) {
  server.service.script = markup("Hm");
  server.service.failure = std::make_exception_ptr(Error(ErrorCode::kIo, "/secret/path: cannot read"));
  const JoinedMessage message = stream(request(kHi, R"("stream":true)"));
  EXPECT_EQ(message.error["type"], "api_error");
  EXPECT_THAT(message.error["message"].get<std::string>(), Not(HasSubstr("secret")));
  EXPECT_EQ(message.order.back(), "content_block_delta thinking_delta");
}

TEST_F(AnthropicReply, PingsWhileAPromptIsRead) {
  const auto exchange = server.post(kMessages, request(kHi, R"("stream":true)"));
  EXPECT_EQ(exchange->heartbeat, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

TEST_F(AnthropicReply, StopsForAReaderThatIsGone) {
  const auto exchange = std::make_shared<RecordedExchange>();
  exchange->most_writes = 2;
  server.router.handle({.method = "POST",
                        .path = kMessages,
                        .query = {},
                        .headers = {},
                        .body = request(kHi, R"("stream":true)"),
                        .peer = "t"},
                       exchange);
  EXPECT_EQ(exchange->text().find("Hello"), std::string::npos);
}

}  // namespace
}  // namespace perigee
