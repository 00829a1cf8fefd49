// Lists of tools of other dialects in OpenAI's chat shape. What a single tool becomes is the dialect's
// business.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "serve/chat_nodes.h"
#include "serve/request_places.h"

namespace perigee {

// tools: an array. chat_tool(tool, its place): the tool in chat shape, whose "function" the client knows by
// the place of the whole tool.
template <typename ChatTool>
void add_chat_tools(const JsonNode& tools, JsonNode& chat, RequestPlaces& places, const ChatTool& chat_tool) {
  std::vector<JsonNode> items;
  for (std::size_t i = 0; i < tools.items.size(); ++i) {
    const std::string param = fmt::format("tools[{}]", i);
    items.push_back(chat_tool(tools.items[i], param));
    places.add(param + ".function", param);
  }
  add_member(chat, "tools", array_node(std::move(items)));
}

}  // namespace perigee
