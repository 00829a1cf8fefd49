// Whether and how hard to think. Clients say it in many ways; this is the one place that ranks them
// (docs/chat-format.md).
#pragma once

#include "text/conversation_json.h"

namespace perigee {

// Sets thinking and effort from, highest rank first: chat_template_kwargs, `thinking` (and beside it
// thinking_effort and enable_thinking), reasoning_effort, the default of `rules`. Every field is checked,
// even one that a higher one overrules.
void read_thinking(const JsonNode& request, const ConversationRules& rules, Conversation& conversation);

}  // namespace perigee
