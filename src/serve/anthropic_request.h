// The bodies of POST /v1/messages and /v1/messages/count_tokens as a chat request (docs/serving.md lists the
// fields): the same conversation, said in blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "serve/openai_request.h"
#include "serve/request_places.h"

namespace perigee {

struct MessagesRequest {
  ChatRequest chat;  // without a limit
  std::size_t max_tokens = 0;
  std::optional<std::size_t> thinking_budget;  // of tokens
  std::string user;                            // metadata.user_id; empty: not said
  RequestPlaces places;                        // for errors of what is done with `chat`
};

// RequestError naming the field at fault, ApiError for a model that is not served.
MessagesRequest read_messages_request(const JsonNode& request, const ServeContext& context);
// The same where nothing is generated: max_tokens may be left out.
MessagesRequest read_count_request(const JsonNode& request, const ServeContext& context);

// The JSON schemas of the bodies, for the OpenAPI document.
std::string messages_request_schema();
std::string count_request_schema();

}  // namespace perigee
