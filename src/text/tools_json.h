// Declared tools and the choice among them, from a request. Tools are rendered as they were sent, so what is
// checked here is only what a prompt or a tool call would stumble over; JSON schemas are not judged.
#pragma once

#include <string>
#include <unordered_set>

#include "text/conversation.h"
#include "text/json_tree.h"

namespace perigee {

// Collects the tools of the request and of its system messages, whose names must differ.
class ToolReader {
 public:
  explicit ToolReader(bool lenient) : lenient_(lenient) {}

  // A list of tools as a prompt shows it; empty for an empty list.
  std::string read(const JsonNode& tools, const std::string& param);

  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const { return known_.contains(name); }

 private:
  void check_tool(const JsonNode& tool, const std::string& param);
  void check_name(const std::string& name, bool builtin, const std::string& param) const;
  void add_name(const std::string& name, const std::string& param);

  bool lenient_;
  std::vector<std::string> names_;
  std::unordered_set<std::string> known_;
};

// Sets tool_choice and named_tool. `choice` is nullptr where the request has none.
void read_tool_choice(const JsonNode* choice, const ToolReader& tools, bool lenient,
                      Conversation& conversation);

}  // namespace perigee
