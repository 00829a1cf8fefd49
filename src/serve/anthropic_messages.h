// `system` and `messages` of Anthropic's dialect as messages of a chat request. There a turn is a list of
// blocks: what the model thought, said and called is one message, and results of calls come inside a user's
// turn.
#pragma once

#include "serve/request_places.h"
#include "text/json_tree.h"

namespace perigee {

// An array of messages in OpenAI's chat shape. As in Anthropic's API neighbours of one role are one message,
// and a last message of the assistant is the beginning of the reply. RequestError naming the block at fault.
// The nodes point into the source of `request`.
JsonNode messages_of_blocks(const JsonNode& request, RequestPlaces& places);

}  // namespace perigee
