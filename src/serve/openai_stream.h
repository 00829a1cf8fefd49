// Answers of POST /v1/chat/completions: whole, or as a stream of chunks whose shape clients test byte by byte
// (docs/serving.md, "Streams").
#pragma once

#include <memory>

#include "serve/openai_request.h"
#include "serve/reply_job.h"

namespace perigee {

// Keep references to `context`.
std::shared_ptr<ReplySink> chat_answer(const ServeContext& context, const ChatRequest& request,
                                       std::shared_ptr<HttpExchange> exchange);
std::shared_ptr<ReplySink> chat_stream(const ServeContext& context, const ChatRequest& request,
                                       std::shared_ptr<HttpExchange> exchange);

}  // namespace perigee
