// Requests in Anthropic's dialect, prompts and replies as markup, and a server to send them to.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/dialect_fixture.h"
#include "serve/message_stream.h"
#include "support/vocabularies.h"

namespace perigee::test {

inline const std::string kMessages = "/v1/messages";
inline const std::string kCount = "/v1/messages/count_tokens";
inline const std::string kOff = R"("thinking":{"type":"disabled"})";
inline const std::string kTools =
    R"("tools":[{"name":"get_time","description":"d","input_schema":{"type":"object"}}])";
inline const std::string kReply =
    "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello<|close|>response<|sep|><|close|>message<|sep|>"
    "<|end_of_msg|>";

inline const Tokenizer& nano() {
  return nano_tokenizer();
}

inline std::vector<TokenId> markup(const std::string& text) {
  return nano().encode_markup(text);
}

inline std::string request(const std::string& messages, const std::string& more = "") {
  return R"({"max_tokens":400,"messages":[)" + messages + "]" + (more.empty() ? "" : "," + more) + "}";
}

inline std::string user(const std::string& content) {
  return R"({"role":"user","content":)" + content + "}";
}

inline std::string assistant(const std::string& content) {
  return R"({"role":"assistant","content":)" + content + "}";
}

inline const std::string kHi = user(R"("Hi")");
inline const std::string kCall =
    assistant(R"([{"type":"tool_use","id":"t1","name":"get_time","input":{"city":"Rome"}}])");

inline std::string frame(const std::string& attributes, const std::string& body) {
  return "<|open|>message role=\"" + attributes + "<|sep|>" + body + "<|close|>message<|sep|><|end_of_msg|>";
}

inline std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>" + value +
         "<|close|>argument<|sep|>";
}

inline std::string call(const std::string& name, const std::string& index, const std::string& arguments) {
  return "<|open|>call tool=\"" + name + "\" index=\"" + index + "\"<|sep|>" + arguments +
         "<|close|>call<|sep|>";
}

inline std::string calling(const std::string& calls) {
  return "Hm.<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>" +
         calls + "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";
}

inline const std::string kOpened = "<|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>";

class AnthropicFixture : public ::testing::Test {
 protected:
  AnthropicFixture() { server.service.script = markup(kReply); }

  nlohmann::json answer(const std::string& body) {
    const auto exchange = server.post(kMessages, body);
    EXPECT_EQ(exchange->head.status, 200) << body << exchange->head.body;
    return exchange->streaming ? nlohmann::json() : body_of(*exchange);
  }

  std::string refused(const std::string& body, const std::string& path = kMessages) {
    const auto exchange = server.post(path, body);
    EXPECT_EQ(exchange->head.status, 400) << body << exchange->head.body << exchange->text();
    if (exchange->head.status != 400) return {};
    const nlohmann::json error = body_of(*exchange);
    EXPECT_EQ(error["type"], "error");
    EXPECT_EQ(error["error"]["type"], "invalid_request_error");
    return error["error"]["message"];
  }

  JoinedMessage stream(const std::string& body) {
    const auto exchange = server.post(kMessages, body);
    JoinedMessage message = check_message_stream(*exchange);
    EXPECT_EQ(message.fault, "") << exchange->text() << exchange->head.body;
    return message;
  }

  // Of the latest request.
  const Job& job() const { return server.service.jobs.back(); }
  std::string prompt() const { return nano().decode(job().request.prompt); }

  DialectFixture server{nano()};
};

}  // namespace perigee::test
