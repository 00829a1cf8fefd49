// Answers of POST /v1/messages: whole, or as a stream of events (docs/serving.md, "Anthropic's dialect").
#pragma once

#include <memory>

#include "serve/anthropic_json.h"
#include "serve/reply_job.h"

namespace perigee {

std::shared_ptr<ReplySink> messages_answer(MessageFacts facts, std::shared_ptr<HttpExchange> exchange);
std::shared_ptr<ReplySink> messages_stream(MessageFacts facts, std::shared_ptr<HttpExchange> exchange);

}  // namespace perigee
