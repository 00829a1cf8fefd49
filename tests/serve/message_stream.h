// What every stream of Anthropic's dialect must keep to, and the message that it adds up to.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/recorded_exchange.h"

namespace perigee::test {

struct JoinedMessage {
  // "message_start", "content_block_start thinking", "content_block_delta text_delta", …; repeated deltas
  // once, pings and signatures left out.
  std::vector<std::string> order;
  // As a whole answer has them, except that the input of a tool_use is text.
  nlohmann::json content = nlohmann::json::array();
  nlohmann::json message;  // of message_start
  nlohmann::json end;      // message_delta
  nlohmann::json error;    // of an error event
  std::string fault;       // the first rule that was broken; empty: none
};

JoinedMessage check_message_stream(const RecordedExchange& exchange);

}  // namespace perigee::test
