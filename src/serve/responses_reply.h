// Answers of POST /v1/responses: whole, or as a stream of events (docs/serving.md, "Responses").
#pragma once

#include <memory>

#include "serve/reply_job.h"
#include "serve/responses_request.h"

namespace perigee {

std::shared_ptr<ReplySink> responses_answer(const ResponsesRequest& request,
                                            std::shared_ptr<HttpExchange> exchange);
std::shared_ptr<ReplySink> responses_stream(const ResponsesRequest& request,
                                            std::shared_ptr<HttpExchange> exchange);

}  // namespace perigee
