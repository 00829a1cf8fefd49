// A finished reply as the JSON of a message in OpenAI's shape.
#pragma once

#include <nlohmann/json.hpp>

#include "text/reply.h"

namespace perigee {

// role, content, reasoning_content (null: none), tool_calls.
nlohmann::ordered_json reply_message_json(const ReplyMessage& message);

nlohmann::ordered_json call_function_json(const std::string& name, const std::string& arguments);

}  // namespace perigee
