// What every dialect is built from: the model that is served, the engine, and the routes of each dialect.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/generation_service.h"
#include "serve/metrics.h"
#include "serve/router.h"
#include "text/conversation_json.h"
#include "text/tokenizer.h"

namespace perigee {

class ReplyGrammars;
using ImageReader = decltype(ConversationRules::image_size);

struct ServedModel {
  std::vector<std::string> names;  // the first is the one that answers show; never empty
  std::int64_t created = 0;        // seconds since 1970
  std::size_t context_tokens = 0;  // prompt and reply together
};

struct ServeOptions {
  bool vendor_contract = false;             // refuse sampling values that Moonshot refuses
  bool urgent_requests = false;             // clients may overtake each other by a priority below 0
  std::size_t default_max_tokens = 131072;  // or what is left of the context
};

// Outlives every route. The references must outlive it.
struct ServeContext {
  ServedModel model;
  ServeOptions options;
  const Tokenizer& tokenizer;
  GenerationService& service;
  ServerMetrics& metrics;
  // Reads an image of a request (text/conversation_json.h); refuses all where the model sees none.
  ImageReader image_size;
  const ReplyGrammars* grammars = nullptr;  // null: tools and formats are not enforced
  // What the state says of the machine, as JSON; called from any thread. Empty: nothing.
  std::function<nlohmann::ordered_json()> machine = {};
};

// kModelNotFound unless `name` is one of the model's.
void check_model_name(const ServedModel& model, const std::string& name, const std::string& param);
// The same for the field "model", which may be left out.
void check_request_model(const JsonNode& request, const ServedModel& model);

// Refuses every image: what a model without eyes does.
ImageReader refuse_images();
// Takes images in data URLs (media/decode_image.h), each decoded whole and at once on the caller's thread:
// what is broken or cut off is refused, and the size is the file's own.
ImageReader decode_images();

void add_openai_routes(Router& router, const ServeContext& context);     // /v1/chat/completions, …
void add_anthropic_routes(Router& router, const ServeContext& context);  // /v1/messages, …
void add_token_routes(Router& router, const ServeContext& context);      // /tokenize, /detokenize
void add_state_routes(Router& router, const ServeContext& context);      // /health, /metrics, /v1/state, …

}  // namespace perigee
