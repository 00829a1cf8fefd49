// Tool results name no call in the prompt: the model tells them apart by order and tool name. This puts each
// run of results into the order of the calls that it answers and finds the names (docs/chat-format.md, "Tool
// results"). It renders nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "text/conversation.h"

namespace perigee {

struct PlacedMessage {
  const Message* message = nullptr;
  std::string_view tool;  // of a result; empty: nothing tells its name
  std::size_t index = 0;  // of a result: 1, 2, … since the last assistant message
};

// All messages in the order of the prompt. The views point into `messages`.
std::vector<PlacedMessage> place_messages(std::span<const Message> messages);

}  // namespace perigee
