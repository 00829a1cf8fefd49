// The body of POST /v1/responses as a chat request (docs/serving.md lists the fields): the same conversation,
// said in items, and what of the request the answer repeats.
#pragma once

#include <string>

#include "serve/json_output.h"
#include "serve/openai_request.h"
#include "serve/request_places.h"

namespace perigee {

struct ResponsesRequest {
  ChatRequest chat;
  Json response;                  // as it is before anything has been generated
  bool sealed_reasoning = false;  // reasoning in encrypted_content as well
  RequestPlaces places;           // for errors of what is done with `chat`
};

// RequestError naming the field at fault, ApiError for a model that is not served.
ResponsesRequest read_responses_request(const JsonNode& request, const ServeContext& context);

// The JSON schema of the body, for the OpenAPI document.
std::string responses_request_schema();

}  // namespace perigee
