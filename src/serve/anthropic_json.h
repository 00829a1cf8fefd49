// Pieces of JSON that answers of Anthropic's dialect are made of.
#pragma once

#include <string>

#include "serve/answer_parts.h"
#include "serve/reply_job.h"

namespace perigee {

// What answers say of a reply beyond its text.
struct MessageFacts {
  std::string model;
  std::string id = new_answer_id("msg_");
  bool fills_context = false;  // the context, not the request, limits the reply
};

// A message without content; without an end while `ended` is null.
Json message_json(const MessageFacts& facts, const ReplyMessage* ended, const ReplyUsage& usage);
// Its stop_reason and stop_sequence.
Json stop_json(const MessageFacts& facts, const ReplyMessage* ended);
Json message_usage_json(const ReplyUsage& usage);

// Clients send a thought back only with a signature. It is the message's id, and nobody checks it.
Json thinking_block(const std::string& thinking, const std::string& signature);
Json text_block(const std::string& text);
// With an id of its own and no input.
Json tool_use_block(const std::string& name);

}  // namespace perigee
