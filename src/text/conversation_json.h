// Reads a conversation from JSON in OpenAI's shape (messages, tools, tool_choice, response_format, thinking
// and its aliases), for the command line and for a server. Fields that are not about the prompt are not its
// business.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "text/conversation.h"
#include "text/json_tree.h"

namespace perigee {

// kUsage with the request field at fault, e.g. "messages[0].content".
class RequestError : public Error {
 public:
  RequestError(std::string param, const std::string& sentence)
      : Error(ErrorCode::kUsage, sentence), param_(std::move(param)) {}
  const std::string& param() const { return param_; }

 private:
  std::string param_;
};

struct ConversationRules {
  // Accept what the released encoder accepts and a server refuses: tool results without tool_call_id, system
  // messages with both content and tools.
  bool lenient = false;
  // Effort when the request names none: servers of K3 send max; unset renders no thinking-effort message.
  std::optional<Effort> default_effort = Effort::kMax;
  // Size of the image that a content part stands for; `url` as sent, `part` the whole part, `param` its
  // place. Throws RequestError for an image that cannot be had. Called in the order of the images.
  std::function<ImageSize(const std::string& url, const JsonNode& part, const std::string& param)> image_size;
};

// `request` is an object with "messages", or the array of messages itself. Throws RequestError.
Conversation read_conversation(const JsonNode& request, const ConversationRules& rules);

}  // namespace perigee
