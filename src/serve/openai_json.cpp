#include "serve/openai_json.h"

#include <algorithm>

#include "text/utf8.h"

namespace perigee {

Json usage_json(const ReplyUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"cached_tokens", usage.cached_tokens}};
}

Json calls_json(const std::vector<ReplyCall>& calls) {
  Json json = Json::array();
  for (const ReplyCall& call : calls) {
    json.push_back({{"id", call.id},
                    {"type", "function"},
                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return json;
}

std::string token_text(TokenId id, const Vocabulary& vocabulary) {
  return replace_invalid_utf8(vocabulary.bytes(id));
}

double finite_logprob(float log_probability) {
  constexpr float kLeast = -9999;
  return std::max(log_probability, kLeast);
}

namespace {

Json one_logprob(const TokenProbability& token, const Vocabulary& vocabulary) {
  Json bytes;
  if (!vocabulary.is_special(token.id)) {
    bytes = Json::array();
    for (const char byte : vocabulary.bytes(token.id)) bytes.push_back(static_cast<unsigned char>(byte));
  }
  return {{"token", token_text(token.id, vocabulary)},
          {"logprob", finite_logprob(token.log_probability)},
          {"bytes", std::move(bytes)}};
}

}  // namespace

Json logprob_json(const SampledToken& token, const Vocabulary& vocabulary) {
  Json json = one_logprob(token.chosen, vocabulary);
  Json top = Json::array();
  for (const TokenProbability& one : token.top) top.push_back(one_logprob(one, vocabulary));
  json["top_logprobs"] = std::move(top);
  return json;
}

StreamPromise chunk_stream_promise() {
  return event_stream_promise("data: ", std::string("\n\n") + kLastEvent);
}

void add_usage_headers(HttpHeaders& headers, const ReplyUsage& usage) {
  headers.add("X-Msh-Usage-Prompt-Tokens", std::to_string(usage.prompt_tokens));
  headers.add("X-Msh-Usage-Cached-Tokens", std::to_string(usage.cached_tokens));
}

}  // namespace perigee
