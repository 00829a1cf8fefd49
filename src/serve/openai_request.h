// The body of POST /v1/chat/completions as a value (docs/serving.md lists the fields).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "serve/reply_rules.h"
#include "text/conversation.h"
#include "text/json_tree.h"

namespace perigee {

struct StreamOptions {
  bool wanted = false;
  bool include_usage = false;             // one more chunk behind the last
  bool continuous_usage = false;          // usage in every chunk
  bool include_internal_content = false;  // ids in every increment
};

struct ChatRequest {
  Conversation conversation;
  SamplingOptions sampling;
  std::vector<std::string> stop;
  std::size_t max_tokens = 0;    // 0: not said
  std::string max_tokens_param;  // the field that said it
  bool logprobs = false;
  std::size_t top_logprobs = 0;
  int priority = 0;  // lower ones are served first
  StreamOptions stream;
  RuleWishes rules;
};

// RequestError naming the field at fault, ApiError for a model that is not served.
ChatRequest read_chat_request(const JsonNode& request, const ServeContext& context);

// "stream", "stream_options" and "n", which raw completions have as well.
StreamOptions read_stream_options(const JsonNode& request);
void check_one_choice(const JsonNode& request);

// The JSON schema of the body, for the OpenAPI document.
std::string chat_request_schema();

}  // namespace perigee
