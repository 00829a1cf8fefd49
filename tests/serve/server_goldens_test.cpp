// The committed requests (tests/data/text/chat/api.json) and what must come back, with a scripted model and
// no sockets.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/hash.h"
#include "serve/dialect_fixture.h"
#include "serve/json_matcher.h"
#include "serve/message_stream.h"
#include "serve/stream_rules.h"
#include "support/vocabularies.h"
#include "text/prompt.h"
#include "text/reply_cases.h"

namespace perigee {
namespace {

using nlohmann::json;
using test::DialectFixture;
using test::RecordedExchange;

std::string body_of_case(const json& one) {
  if (one.contains("body")) return one["body"].is_null() ? "" : one["body"].dump();
  if (one.contains("raw_body")) return one["raw_body"];
  std::string body;
  if (one.contains("raw_body_base64")) {
    EXPECT_TRUE(decode_base64(one["raw_body_base64"].get<std::string>(), body));
    return body;
  }
  if (!one.contains("raw_body_repeat")) return {};
  body = one["raw_body_repeat"][0];
  for (int i = 0; i < one["raw_body_repeat"][2]; ++i) body += one["raw_body_repeat"][1].get<std::string>();
  return body;
}

HttpRequest request_of(const json& one) {
  HttpRequest request;
  request.method = one.at("method");
  request.path = one.at("path");
  const json headers = one.value("headers", json::object());
  for (const auto& [name, value] : headers.items()) request.headers.add(name, value);
  request.body = body_of_case(one);
  request.peer = "test";
  return request;
}

RouterOptions options_of(const json& one) {
  RouterOptions options;
  const json server = one.value("server", json::object());
  if (server.contains("api_key")) options.keys = {server["api_key"]};
  options.max_body_bytes = server.value("max_body_bytes", options.max_body_bytes);
  return options;
}

// One case, judged by everything that it expects.
class GoldenCase {
 public:
  GoldenCase(const json& one, const Tokenizer& tokenizer, const std::vector<std::uint32_t>& script,
             ImageReader images = decode_images())
      : one_(one), expect_(one.at("expect")), tokenizer_(tokenizer), server_(tokenizer, options_of(one)) {
    server_.context.image_size = std::move(images);
    server_.service.script = script;
    server_.service.limited = false;
    server_.context.model.context_tokens = one.value("server", json::object()).value("context", 1048576U);
    exchange_ = server_.ask(request_of(one));
  }

  void judge() {
    EXPECT_EQ(exchange_->answers, 1);
    EXPECT_TRUE(exchange_->ended);
    EXPECT_EQ(exchange_->head.status, expect_.at("status")) << exchange_->head.body;
    if (expect_.contains("error")) judge_error();
    if (expect_.contains("json") || expect_.contains("headers")) judge_json();
    if (expect_.contains("stream")) judge_stream();
    if (expect_.contains("events")) judge_events();
    if (expect_["status"] == 200 && !server_.service.jobs.empty()) judge_prompt();
  }

  const RecordedExchange& exchange() const { return *exchange_; }

 private:
  bool anthropic() const { return one_.at("path").get<std::string>().starts_with("/v1/messages"); }

  // As error_shapes of the file show it.
  void judge_shape(const json& body) const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : body.at("error").items()) keys.push_back(key);
    if (anthropic()) {
      EXPECT_EQ(body.at("type"), "error");
      EXPECT_EQ(keys, (std::vector<std::string>{"message", "type"}));
    } else {
      EXPECT_EQ(keys, (std::vector<std::string>{"code", "message", "param", "type"}));
    }
  }

  void judge_error() {
    const json body = test::body_of(*exchange_);
    judge_shape(body);
    const json& error = body.at("error");
    for (const auto& [key, wanted] : expect_["error"].items()) {
      if (key == "message_contains") {
        const std::string message = error["message"];
        EXPECT_NE(message.find(wanted.get<std::string>()), std::string::npos) << message;
      } else {
        EXPECT_EQ(test::mismatch(test::value_at(error, "/" + key), wanted, error, {}), "") << key;
      }
    }
    EXPECT_TRUE(server_.service.jobs.empty());
  }

  void judge_json() {
    const json body = test::body_of(*exchange_);
    const json prompt_tokens = expect_.value("prompt_tokens", json());
    const json values = expect_.value("json", json::object());
    for (const auto& [pointer, wanted] : values.items()) {
      EXPECT_EQ(test::mismatch(test::value_at(body, pointer), wanted, body, prompt_tokens), "") << pointer;
    }
    const json headers = expect_.value("headers", json::object());
    for (const auto& [name, wanted] : headers.items()) {
      const auto value = exchange_->head.headers.find(name);
      ASSERT_TRUE(value.has_value()) << name;
      const json text = std::string(*value);
      EXPECT_EQ(test::mismatch(&text, wanted, body, prompt_tokens), "") << name;
    }
  }

  void judge_stream() {
    const json& wanted = expect_["stream"];
    const test::JoinedStream stream = test::check_stream(*exchange_, wanted["rules"]);
    EXPECT_EQ(stream.fault, "") << exchange_->text();
    EXPECT_EQ(stream.content, wanted.value("content", ""));
    if (wanted.contains("reasoning_content")) {
      EXPECT_EQ(stream.reasoning, wanted["reasoning_content"]);
    }
    if (wanted.contains("tool_calls")) {
      EXPECT_EQ(stream.calls, wanted["tool_calls"]);
    }
    EXPECT_EQ(stream.finish_reason, wanted["finish_reason"]);
    EXPECT_TRUE(exchange_->head.headers.find("X-Msh-Usage-Prompt-Tokens").has_value());
  }

  void judge_events() {
    const test::JoinedMessage message = test::check_message_stream(*exchange_);
    EXPECT_EQ(message.fault, "") << exchange_->text();
    EXPECT_EQ(json(message.order), expect_["events"]);
  }

  void judge_prompt() {
    const std::vector<std::uint32_t>& ids = server_.service.jobs.at(0).request.prompt;
    const std::string prompt = tokenizer_.decode(ids);
    if (expect_.contains("prompt")) judge_prompt_text(prompt, expect_["prompt"]);
    if (expect_.contains("prompt_ends")) {
      EXPECT_TRUE(prompt.ends_with(expect_["prompt_ends"].get<std::string>()));
    }
    if (expect_.contains("prompt_contains")) {
      EXPECT_NE(prompt.find(expect_["prompt_contains"].get<std::string>()), std::string::npos);
    }
    if (!expect_.contains("prompt_tokens")) return;
    EXPECT_EQ(ids.size() - kPendingPromptIds, expect_["prompt_tokens"]);
    if (exchange_->streaming) return;
    const json usage = test::body_of(*exchange_).at("usage");
    const std::int64_t counted = anthropic() ? usage.at("input_tokens").get<std::int64_t>() +
                                                   usage.at("cache_read_input_tokens").get<std::int64_t>()
                                             : usage.at("prompt_tokens").get<std::int64_t>();
    EXPECT_EQ(counted, expect_["prompt_tokens"]);
  }

  static void judge_prompt_text(const std::string& prompt, const json& wanted) {
    if (wanted.is_string()) {
      EXPECT_EQ(prompt, wanted.get<std::string>());
      return;
    }
    EXPECT_EQ(prompt.size(), wanted.at("bytes"));
    EXPECT_EQ(sha256_hex(std::as_bytes(std::span(prompt.data(), prompt.size()))), wanted.at("sha256"));
  }

  const json& one_;
  json expect_;
  const Tokenizer& tokenizer_;
  DialectFixture server_;
  std::shared_ptr<RecordedExchange> exchange_;
};

class ServerGoldens : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const test::ReplyCase& reply : test::reply_cases()) replies_[reply.name] = reply;
    const json golden = test::reply_golden("api.json");
    for (const json& one : golden.at("cases")) cases_.push_back(one);
    ASSERT_EQ(cases_.size(), 275U);
  }

  // Good images, which a model with eyes accepts.
  static bool needs_eyes(const json& one) {
    const std::string name = one["name"];
    return (name.starts_with("image_") || name == "a_image") && one["expect"]["status"] == 200 &&
           name != "image_placeholder_text";
  }

  std::vector<std::uint32_t> script_of(const json& one) const {
    return one.contains("reply") ? replies_.at(one["reply"]).ids : std::vector<std::uint32_t>();
  }

  std::map<std::string, test::ReplyCase> replies_;
  std::vector<json> cases_;
};

TEST_F(ServerGoldens, GetTheAnswersThatTheyExpect) {
  const Tokenizer* tokenizer = test::k3_tokenizer();
  if (tokenizer == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  for (const json& one : cases_) {
    SCOPED_TRACE(one["name"].get<std::string>());
    GoldenCase(one, *tokenizer, script_of(one)).judge();
  }
}

// With another vocabulary ids and counts differ; what is wrong with a request does not.
TEST_F(ServerGoldens, AreRefusedForTheSameReasonsWithAnotherVocabulary) {
  std::size_t judged = 0;
  for (const json& one : cases_) {
    if (!one["expect"].contains("error")) continue;
    SCOPED_TRACE(one["name"].get<std::string>());
    GoldenCase(one, test::nano_tokenizer(), {}).judge();
    ++judged;
  }
  EXPECT_EQ(judged, 142U);
}

TEST_F(ServerGoldens, WithImagesAreRefusedByAModelThatSeesNone) {
  std::size_t refused = 0;
  for (const json& one : cases_) {
    if (!needs_eyes(one)) continue;
    const GoldenCase asked(one, test::nano_tokenizer(), {}, refuse_images());
    EXPECT_EQ(asked.exchange().head.status, 400) << one["name"];
    const std::string sentence = test::body_of(asked.exchange())["error"]["message"];
    const std::string place = one["name"] == "a_image" ? "source" : "image_url";
    EXPECT_TRUE(sentence.starts_with("messages[0].content[0]." + place + " ")) << sentence;
    EXPECT_NE(sentence.find("sees none"), std::string::npos) << sentence;
    ++refused;
  }
  EXPECT_EQ(refused, 5U);
}

}  // namespace
}  // namespace perigee
