// Pieces of JSON that answers of OpenAI's dialect are made of.
#pragma once

#include <string>
#include <vector>

#include "engine/sampler.h"
#include "serve/answer_parts.h"
#include "serve/json_output.h"
#include "serve/reply_job.h"
#include "text/vocabulary.h"

namespace perigee {

Json usage_json(const ReplyUsage& usage);
Json calls_json(const std::vector<ReplyCall>& calls);

// {token, logprob, bytes, top_logprobs}; bytes is null for special tokens.
Json logprob_json(const SampledToken& token, const Vocabulary& vocabulary);
// What a token is called: its text, invalid UTF-8 as U+FFFD.
std::string token_text(TokenId id, const Vocabulary& vocabulary);
// JSON has no infinity.
double finite_logprob(float log_probability);

// X-Msh-Usage-…: on every answer, streams included.
void add_usage_headers(HttpHeaders& headers, const ReplyUsage& usage);

inline constexpr const char* kLastEvent = "data: [DONE]\n\n";
// That of an answer whose events are chunks.
StreamPromise chunk_stream_promise();

}  // namespace perigee
