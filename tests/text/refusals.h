// Requests made of a few fields, and the field for which they are refused. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "text/prompt_fixture.h"
#include "text/utf8.h"

namespace perigee::test {

struct Refusal {
  std::string request;
  std::string param;
};

// The field that a request is refused for; "" if it is accepted.
inline std::string refused_field(const std::string& json, const ConversationRules& rules = server_rules()) {
  try {
    conversation_of(json, rules);
  } catch (const RequestError& error) {
    const std::string sentence = error.what();
    EXPECT_NE(sentence.find(error.param()), std::string::npos) << sentence;
    EXPECT_TRUE(is_valid_utf8(sentence));
    EXPECT_LT(sentence.size(), 400U);
    return error.param();
  }
  return "";
}

// A request with one user message and these fields.
inline std::string with_fields(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"Hi"}],)" + fields + "}";
}

inline std::string with_tools(const std::string& tools) {
  return with_fields("\"tools\":" + tools);
}

// A user message, then this one.
inline std::string with_message(const std::string& message) {
  return R"({"messages":[{"role":"user","content":"Hi"},)" + message + "]}";
}

}  // namespace perigee::test
