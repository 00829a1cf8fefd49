// What a request's tools, tool_choice and response_format forbid the sampler (docs/structured-output.md).
#pragma once

#include "engine/sampler.h"
#include "serve/dialect.h"
#include "text/conversation.h"
#include "text/reply.h"

namespace perigee {

struct RuleWishes {
  bool strict_response = true;  // false: the format is asked for in the prompt only
  bool one_call = false;        // parallel_tool_calls is false
};

// Empty where nothing is to be held to: no tools and no format, or a server without grammars. `start`: the
// channel that the prompt leaves open. RequestError naming the schema that cannot be followed, or the partial
// message that the format does not allow.
TokenFilter reply_filter(const ServeContext& context, const Conversation& conversation, Channel start,
                         const RuleWishes& wishes);

}  // namespace perigee
