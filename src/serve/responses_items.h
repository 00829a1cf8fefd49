// The `input` of POST /v1/responses as messages of a chat request. What the model said in one turn is one
// message there, while here it comes in items: reasoning, text, calls.
#pragma once

#include "serve/request_places.h"
#include "text/json_tree.h"

namespace perigee {

// An array of messages in OpenAI's chat shape; `instructions`, if not null, before all others. RequestError
// naming the item at fault. The nodes point into the source of `input`.
JsonNode messages_of_input(const JsonNode& input, const JsonNode* instructions, RequestPlaces& places);

}  // namespace perigee
