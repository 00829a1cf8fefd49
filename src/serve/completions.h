// POST /v1/completions: the prompt is a text or ids as they are, and what follows comes back as text, markup
// included. For base-model use and tests; conversations go to /v1/chat/completions.
#pragma once

#include <memory>
#include <string>

#include "serve/dialect.h"

namespace perigee {

void answer_completion(const Router& router, const ServeContext& context, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange);

std::string completion_request_schema();

// The ids of "prompt": special tokens in a text are recognised; an array of ids is taken as it is.
std::vector<TokenId> read_raw_prompt(const JsonNode& request, const Tokenizer& tokenizer);

}  // namespace perigee
