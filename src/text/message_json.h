// One message of a request.
#pragma once

#include <string>

#include "text/conversation_json.h"
#include "text/tools_json.h"

namespace perigee {

// `param` is the message's place, e.g. "messages[3]". Tools that a system message adds go to `tools`.
// `last`: nothing follows, so the message may be partial.
Message read_message(const JsonNode& node, const std::string& param, bool last,
                     const ConversationRules& rules, ToolReader& tools);

}  // namespace perigee
