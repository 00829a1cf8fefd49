// What OpenAI's dialect does beyond the committed requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/reply_grammar.h"
#include "serve/dialect_fixture.h"
#include "serve/stream_rules.h"
#include "support/vocabularies.h"

namespace perigee {
namespace {

using nlohmann::json;
using test::body_of;
using test::DialectFixture;
using test::events_of;
using ::testing::HasSubstr;

const std::string kChat = "/v1/chat/completions";
const std::string kCompletions = "/v1/completions";

const Tokenizer& nano() {
  return test::nano_tokenizer();
}

std::string chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"Hi"}])" + (more.empty() ? "" : "," + more) + "}";
}

std::vector<TokenId> markup(const std::string& text) {
  return nano().encode_markup(text);
}

const std::string kReply =
    "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello<|close|>response<|sep|><|close|>message<|sep|>"
    "<|end_of_msg|>";

class OpenAi : public ::testing::Test {
 protected:
  json refused(const std::string& path, const std::string& body) {
    const auto exchange = server.post(path, body);
    EXPECT_EQ(exchange->head.status, 400) << exchange->head.body << exchange->text();
    return body_of(*exchange).value("error", json::object());
  }
  DialectFixture server{nano()};
};

TEST_F(OpenAi, PassesSamplingOnToTheEngine) {
  server.service.script = markup(kReply);
  server.post(kChat,
              chat(R"("temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"presence_penalty":1,)"
                   R"("frequency_penalty":-1,"repetition_penalty":1.5,"seed":-3,"logit_bias":{"5":-100})"));
  const SamplingOptions& sampling = server.service.jobs.at(0).request.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.25);
  EXPECT_EQ(sampling.top_k, 7U);
  EXPECT_EQ(sampling.min_p, 0.125);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, -1);
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(sampling.logit_bias.at(5), -100);
}

TEST_F(OpenAi, SamplesAsTheModelWasMadeForUnlessTold) {
  server.post(kChat, chat(""));
  server.post(kChat, chat(""));
  const SamplingOptions& sampling = server.service.jobs.at(0).request.sampling;
  EXPECT_EQ(sampling.temperature, 1);
  EXPECT_EQ(sampling.top_p, 0.95);
  EXPECT_NE(sampling.seed, server.service.jobs.at(1).request.sampling.seed);
}

TEST_F(OpenAi, RefusesFieldsOutOfRangeByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("top_k":-2)", "top_k"},
      {R"("min_p":1.5)", "min_p"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("temperature":1e999)", "temperature"},
      {R"("seed":99999999999999999999)", "seed"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias"},
      {R"("parallel_tool_calls":1)", "parallel_tool_calls"},
      {R"("stream":true,"stream_options":3)", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
  };
  for (const auto& [field, param] : cases) EXPECT_EQ(refused(kChat, chat(field))["param"], param) << field;
}

TEST_F(OpenAi, RefusesWhatMoonshotRefusesIfAskedTo) {
  server.context.options.vendor_contract = true;
  EXPECT_THAT(refused(kChat, chat(R"("temperature":0.7)"))["message"].get<std::string>(),
              HasSubstr("invalid temperature: only 1 is allowed for this model"));
  EXPECT_EQ(refused(kChat, chat(R"("top_p":1)"))["param"], "top_p");
  EXPECT_EQ(refused(kChat, chat(R"("presence_penalty":1)"))["param"], "presence_penalty");
  EXPECT_EQ(server.post(kChat, chat(R"("temperature":1,"top_p":0.95)"))->head.status, 200);
}

TEST_F(OpenAi, RefusesALimitBeyondWhatIsLeftOfTheContext) {
  server.context.model.context_tokens = 200;
  const json error = refused(kChat, chat(R"("max_tokens":190)"));
  EXPECT_EQ(error["param"], "max_tokens");
  EXPECT_EQ(error["code"], "context_length_exceeded");
  const std::string message = error["message"];
  EXPECT_NE(message.find("this model's maximum context length is 200"), std::string::npos) << message;
  server.post(kChat, chat(""));
  const Job& job = server.service.jobs.at(0);
  EXPECT_EQ(job.request.max_tokens, 200 - job.request.prompt.size());
}

TEST_F(OpenAi, SaysWhenToComeBack) {
  server.service.refusal = Refusal{Refusal::Reason::kQueueFull, 2.5, "the queue is full"};
  const auto exchange = server.post(kChat, chat(R"("stream":true)"));
  EXPECT_EQ(exchange->head.status, 429);
  EXPECT_EQ(exchange->head.headers.find("Retry-After"), "3");
  EXPECT_EQ(body_of(*exchange)["error"]["type"], "engine_overloaded_error");
  EXPECT_FALSE(exchange->streaming);
}

TEST_F(OpenAi, TellsAFailureInsideTheStream) {
  server.service.script = markup("Hm");
  server.service.failure = std::make_exception_ptr(Error(ErrorCode::kIo, "/secret/path: cannot read"));
  const auto exchange = server.post(kChat, chat(R"("stream":true)"));
  EXPECT_EQ(exchange->head.status, 200);
  EXPECT_EQ(events_of(exchange->text()).back()["error"]["type"], "server_error");
  EXPECT_EQ(exchange->text().find("secret"), std::string::npos);
  EXPECT_TRUE(exchange->text().ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(exchange->ended);
}

TEST_F(OpenAi, StopsForAReaderThatIsGone) {
  server.service.script = markup(kReply);
  const auto exchange = std::make_shared<test::RecordedExchange>();
  exchange->most_writes = 2;
  server.router.handle({.method = "POST",
                        .path = kChat,
                        .query = {},
                        .headers = {},
                        .body = chat(R"("stream":true,"stream_options":{"include_internal_content":true})"),
                        .peer = "t"},
                       exchange);
  EXPECT_EQ(exchange->text().find("Hello"), std::string::npos);  // it never came to the answer
  EXPECT_THAT(server.get("/metrics")->head.body,
              HasSubstr(R"(vllm:request_success_total{model_name="kimi-k3",finished_reason="abort"} 1)"));
}

TEST_F(OpenAi, CountsUsage) {
  server.service.script = markup(kReply);
  server.service.cached = 4;
  const auto exchange = server.post(kChat, chat(""));
  const json usage = body_of(*exchange)["usage"];
  EXPECT_EQ(usage["completion_tokens"], markup(kReply).size() - 1);  // the end token is not waited for
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], markup("Hm.").size());
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(usage["cached_tokens"], 4);
  EXPECT_EQ(exchange->head.headers.find("X-Msh-Usage-Cached-Tokens"), "4");
}

TEST_F(OpenAi, ShowsUsageInEveryChunkIfAsked) {
  server.service.script = markup(kReply);
  const auto exchange =
      server.post(kChat, chat(R"("stream":true,"stream_options":{"continuous_usage_stats":true})"));
  std::size_t before = 0;
  for (const json& event : events_of(exchange->text())) {
    const std::size_t reasoning = event.at("usage")["completion_tokens_details"]["reasoning_tokens"];
    EXPECT_GE(reasoning, before);
    before = reasoning;
  }
  EXPECT_EQ(before, markup("Hm.").size());
}

TEST_F(OpenAi, ShowsTheLogprobsOfEveryTokenOnceInAStream) {
  server.service.script = markup(kReply);
  const auto exchange = server.post(kChat, chat(R"("stream":true,"logprobs":true,"top_logprobs":1)"));
  std::vector<std::string> tokens;
  for (const json& event : events_of(exchange->text())) {
    const json& choice = event["choices"][0];
    if (!choice.contains("logprobs")) continue;
    for (const json& token : choice["logprobs"]["content"]) {
      tokens.push_back(token["token"]);
      const bool special = tokens.back().starts_with("<|");
      EXPECT_EQ(token["bytes"].is_null(), special) << token;
      EXPECT_EQ(token["top_logprobs"].size(), 1U);
    }
  }
  std::vector<std::string> expected;
  for (const TokenId id : markup(kReply)) expected.emplace_back(nano().vocabulary().bytes(id));
  expected.pop_back();  // the end token is not waited for
  EXPECT_EQ(tokens, expected);
}

TEST_F(OpenAi, KeepsStatesThatOtherRequestsShare) {
  server.post(kChat,
              R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]})");
  const Job& job = server.service.jobs.at(0);
  ASSERT_EQ(job.snapshot_positions.size(), 2U);
  const std::string all = nano().decode(job.request.prompt);
  const std::string system = nano().decode(std::span(job.request.prompt).first(job.snapshot_positions[0]));
  const std::string turn = nano().decode(std::span(job.request.prompt).first(job.snapshot_positions[1]));
  EXPECT_TRUE(system.ends_with("Be brief.<|close|>message<|sep|><|end_of_msg|>")) << system;
  EXPECT_TRUE(turn.ends_with("Hi<|close|>message<|sep|><|end_of_msg|>")) << turn;
  EXPECT_TRUE(job.snapshot_end);
}

// Which of two texts' first tokens may come first.
class HeldReply {
 public:
  HeldReply(DialectFixture& server, const std::string& body) {
    server.context.grammars = &grammars_;
    const auto exchange = server.post(kChat, body);
    EXPECT_EQ(exchange->head.status, 200) << exchange->head.body;
    filter_ = server.service.jobs.back().request.sampling.filter;
    server.context.grammars = nullptr;
  }
  bool held() const { return static_cast<bool>(filter_); }
  // Whether `next` may follow what has been generated.
  bool allows(const std::string& generated, const std::string& next) const {
    std::vector<std::uint64_t> bits(nano().vocabulary().size() / 64 + 1);
    filter_(markup(generated), bits);
    const TokenId id = markup(next).at(0);
    return (bits[id / 64] >> (id % 64) & 1) != 0;
  }

 private:
  ReplyGrammars grammars_{nano().vocabulary()};
  TokenFilter filter_;
};

TEST_F(OpenAi, HoldsTheAnswerToAFormat) {
  const HeldReply object(server,
                         chat(R"("response_format":{"type":"json_object"},"reasoning_effort":"none")"));
  EXPECT_TRUE(object.allows("", "{"));
  EXPECT_FALSE(object.allows("", "["));
  const HeldReply schema(server, chat(R"("reasoning_effort":"none","response_format":{"type":"json_schema",)"
                                      R"("json_schema":{"name":"n","schema":{"type":"integer"}}})"));
  EXPECT_TRUE(schema.allows("", "7"));
  EXPECT_FALSE(schema.allows("", "{"));
  EXPECT_FALSE(HeldReply(server, chat("")).held());
  EXPECT_FALSE(HeldReply(server, chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"n",)"
                                      R"("strict":false,"schema":{"type":"integer"}}})"))
                   .held());
}

TEST_F(OpenAi, HoldsTheReplyToARequiredCall) {
  const std::string tools =
      R"("reasoning_effort":"none","tools":[{"type":"function","function":{"name":"a"}},)"
      R"({"type":"function","function":{"name":"b"}}],"tool_choice":)";
  const std::string answered = "x<|close|>response<|sep|>";
  const HeldReply required(server, chat(tools + R"("required")"));
  EXPECT_TRUE(required.allows(answered, "<|open|>"));
  const HeldReply refusing(server, chat(tools + R"("required")"));
  EXPECT_FALSE(refusing.allows(answered, "<|close|>"));
  const HeldReply named(server, chat(tools + R"({"type":"function","function":{"name":"b"}})"));
  const std::string call = answered + "<|open|>tools<|sep|><|open|>call tool=\"";
  EXPECT_TRUE(named.allows(call, "b"));
  const HeldReply other(server, chat(tools + R"({"type":"function","function":{"name":"b"}})"));
  EXPECT_FALSE(other.allows(call, "a"));
  const HeldReply none(server, chat(tools + R"("none")"));
  EXPECT_FALSE(none.allows(answered, "<|open|>"));
}

TEST_F(OpenAi, RefusesASchemaThatCannotBeFollowed) {
  const ReplyGrammars grammars(nano().vocabulary());
  server.context.grammars = &grammars;
  const json error =
      refused(kChat, chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"n",)"
                          R"("schema":{"type":"string","pattern":"(?<=a)b"}}})"));
  EXPECT_EQ(error["param"], "response_format.json_schema.schema");
}

TEST_F(OpenAi, GoesOnWithATextAsItIs) {
  server.service.script = markup(" there<|open|>x");
  const auto exchange = server.post(kCompletions, R"({"prompt":"Hello","max_tokens":3,"logprobs":1})");
  const json body = body_of(*exchange);
  EXPECT_EQ(nano().decode(server.service.jobs.at(0).request.prompt), "Hello");
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["choices"][0]["text"], " there<|open|>x");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"].size(), 3U);
  EXPECT_EQ(body["choices"][0]["logprobs"]["text_offset"], json({0, 6, 14}));
  EXPECT_EQ(body["usage"]["prompt_tokens"], markup("Hello").size());
}

TEST_F(OpenAi, StreamsATextAndStopsAtAString) {
  server.service.script = markup("one two three");
  const auto exchange =
      server.post(kCompletions, R"({"prompt":[1,2],"stream":true,"stop":" thr","echo":false})");
  std::string text;
  std::string reason;
  for (const json& event : events_of(exchange->text())) {
    text += event["choices"][0]["text"].get<std::string>();
    if (event["choices"][0]["finish_reason"].is_string()) reason = event["choices"][0]["finish_reason"];
  }
  EXPECT_EQ(text, "one two");
  EXPECT_EQ(reason, "stop");
  EXPECT_EQ(server.service.jobs.at(0).request.prompt, (std::vector<TokenId>{1, 2}));
}

TEST_F(OpenAi, RefusesPromptsThatItCannotGoOnWith) {
  for (const char* body :
       {"{}", R"({"prompt":""})", R"({"prompt":[]})", R"({"prompt":3})", R"({"prompt":["a","b"]})",
        R"({"prompt":[99999999]})", R"({"prompt":[-1]})", R"({"prompt":[1.5]})"}) {
    EXPECT_EQ(refused(kCompletions, body)["param"], "prompt") << body;
  }
  EXPECT_EQ(refused(kCompletions, R"({"prompt":"a","best_of":2})")["param"], "best_of");
  EXPECT_EQ(refused(kCompletions, R"({"prompt":"a","suffix":"b"})")["param"], "suffix");
}

TEST_F(OpenAi, TokenizesAndBack) {
  const json tokens = body_of(*server.post("/tokenize", R"({"prompt":"Hello <|open|>"})"));
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["tokens"], json(markup("Hello <|open|>")));
  const json back = body_of(*server.post("/detokenize", json({{"tokens", tokens["tokens"]}}).dump()));
  EXPECT_EQ(back["prompt"], "Hello <|open|>");
  const json prompt = body_of(*server.post("/tokenize", chat("")));
  server.post(kChat, chat(""));
  EXPECT_EQ(prompt["tokens"], json(server.service.jobs.at(0).request.prompt));
  EXPECT_EQ(refused("/detokenize", R"({"tokens":[99999999]})")["param"], "tokens");
}

TEST_F(OpenAi, PassesThePriorityOn) {
  server.post(kChat, chat(R"("priority":7)"));
  server.post(kCompletions, R"({"prompt":"Hi","priority":3})");
  server.post(kChat, chat(""));
  EXPECT_EQ(server.service.jobs.at(0).priority, 7);
  EXPECT_EQ(server.service.jobs.at(1).priority, 3);
  EXPECT_EQ(server.service.jobs.at(2).priority, 0);
}

TEST_F(OpenAi, LetsNobodyOvertakeUnlessThatIsAllowed) {
  const std::string urgent = chat(R"("priority":-1)");
  EXPECT_EQ(refused(kChat, urgent)["param"], "priority");
  server.context.options.urgent_requests = true;
  EXPECT_EQ(server.post(kChat, urgent)->head.status, 200);
  EXPECT_EQ(server.service.jobs.at(0).priority, -1);
}

TEST_F(OpenAi, DescribesExactlyItsRoutes) {
  const json document = body_of(*server.get("/openapi.json"));
  std::size_t operations = 0;
  for (const Route& route : server.router.routes()) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    ASSERT_TRUE(document["paths"].contains(route.path)) << route.path;
    EXPECT_TRUE(document["paths"][route.path].contains(method)) << route.path;
    EXPECT_EQ(document["paths"][route.path][method].contains("requestBody"), route.method == "POST")
        << route.path;
  }
  for (const json& path : document["paths"]) operations += path.size();
  EXPECT_EQ(operations, server.router.routes().size());
}

// A field that the document names is read: a value of a wrong type is refused by its name.
TEST_F(OpenAi, DescribesFieldsThatItReads) {
  const json document = body_of(*server.get("/openapi.json"));
  for (const auto& [path, valid] : {std::pair<std::string, std::string>{kChat, chat("")},
                                    {kCompletions, R"({"prompt":"a"})"},
                                    {"/v1/responses", R"({"input":"a"})"}}) {
    const json fields =
        document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"];
    EXPECT_GE(fields.size(), 19U);
    for (const auto& [field, schema] : fields.items()) {
      json body = json::parse(valid);
      const bool takes_lists = schema.dump().find("array") != std::string::npos;
      body[field] = takes_lists ? json(true) : json::array({true});
      const std::string param = refused(path, body.dump())["param"];
      EXPECT_EQ(param, field);
    }
  }
}

TEST_F(OpenAi, ShowsMetricsAndState) {
  server.service.script = markup(kReply);
  server.post(kChat, chat(""));
  const std::string metrics = server.get("/metrics")->head.body;
  EXPECT_THAT(metrics,
              HasSubstr(R"(vllm:request_success_total{model_name="kimi-k3",finished_reason="stop"} 1)"));
  EXPECT_THAT(metrics, HasSubstr("vllm:num_requests_running{model_name=\"kimi-k3\"} 0"));
  EXPECT_THAT(metrics, HasSubstr("vllm:time_to_first_token_seconds_count{model_name=\"kimi-k3\"} 1"));
  const json state = body_of(*server.get("/v1/state"));
  EXPECT_EQ(state["model"], "kimi-k3");
  EXPECT_EQ(state["prompts"], json::array());
  EXPECT_EQ(state["steps"]["count"], 0);
  EXPECT_EQ(state["jobs"]["running"], 0);
  EXPECT_EQ(body_of(*server.get("/health"))["status"], "ok");
}

}  // namespace
}  // namespace perigee
