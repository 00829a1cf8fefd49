// Bodies of the system messages that a prompt gets beyond those of the conversation. The model was trained on
// these very bytes (docs/chat-format.md, "Synthesised system messages"); each body is one segment.
#pragma once

#include <string>
#include <string_view>

#include "text/conversation.h"

namespace perigee {

std::string tools_body(std::string_view tools_json);        // tools of the request
std::string added_tools_body(std::string_view tools_json);  // tools that a system message adds
std::string effort_body(Effort effort);
std::string tool_choice_body(ToolChoice choice);                 // empty: no such message
std::string response_format_body(const ResponseFormat& format);  // empty: no such message

}  // namespace perigee
