// Nodes of a request in OpenAI's chat shape, put together from parts of a request in another one, so that all
// dialects are read by the same reader. Not for writing JSON: such nodes have no source text of their own.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/json_fields.h"

namespace perigee {

inline JsonNode text_node(std::string text) {
  JsonNode node;
  node.kind = JsonKind::kString;
  node.text = std::move(text);
  return node;
}

inline JsonNode boolean_node(bool value) {
  JsonNode node;
  node.kind = JsonKind::kBoolean;
  node.literal = value ? "true" : "false";
  return node;
}

inline JsonNode array_node(std::vector<JsonNode> items) {
  JsonNode node;
  node.kind = JsonKind::kArray;
  node.items = std::move(items);
  return node;
}

inline JsonNode object_node() {
  JsonNode node;
  node.kind = JsonKind::kObject;
  return node;
}

inline void add_member(JsonNode& object, std::string_view key, JsonNode value) {
  JsonNode::Member member;
  member.key = key;
  member.value = std::move(value);
  object.members.push_back(std::move(member));
}

// Adds `from`'s member of that key, unless it is absent or null, under another name.
inline void copy_member(const JsonNode& from, std::string_view key, JsonNode& to, std::string_view name) {
  if (const JsonNode* value = find_set(from, key)) add_member(to, name, *value);
}

}  // namespace perigee
