// From a chat request that has been read to the reply that is generated: prompt, limits, rules. For every
// dialect that says what it wants as a chat request.
#pragma once

#include <string>

#include "serve/openai_request.h"
#include "serve/reply_job.h"

namespace perigee {

// `client`: for fairness. Errors name the fields of a chat request.
ReplyRequest chat_reply(const ServeContext& context, const ChatRequest& chat, std::string client);

}  // namespace perigee
