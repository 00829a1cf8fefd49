// Pieces of JSON that answers of POST /v1/responses are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/json_output.h"
#include "serve/reply_job.h"
#include "text/json_tree.h"

namespace perigee {

// A value of a request, to be repeated in an answer. Of duplicate members the last counts; a number that no
// double can hold is null.
Json json_of(const JsonNode& node);

// One item of `output`.
struct ResponseItem {
  enum class Kind { kReasoning, kMessage, kCall };
  Kind kind = Kind::kMessage;
  std::string id;
  std::string text;     // reasoning, content, or the arguments of a call
  std::string name;     // kCall
  std::string call_id;  // kCall
};

enum class ItemStatus { kInProgress, kCompleted, kIncomplete };

ResponseItem new_reasoning_item();
ResponseItem new_message_item();
ResponseItem new_call_item(std::string name, std::string call_id);

// In progress: without any text yet. `sealed`: reasoning is also in encrypted_content.
Json item_json(const ResponseItem& item, ItemStatus status, bool sealed);
// The one part of `content`, for reasoning and messages.
Json part_json(const ResponseItem& item, const std::string& text);

// Clients that store nothing send encrypted_content back and drop the rest. It is the text itself behind a
// mark that tells it from that of other servers; nothing is encrypted.
std::string sealed_reasoning(const std::string& text);
std::string opened_reasoning(std::string_view sealed);  // empty: not one of ours

// Whether the answer shows a message: not if there are only calls, or reasoning that was cut.
bool shows_message(const ReplyMessage& message);

// Makes the response in progress that `response` is the one at the end.
void end_response(Json& response, Json output, const ReplyMessage& message, const ReplyUsage& usage);

}  // namespace perigee
