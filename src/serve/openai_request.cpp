#include "serve/openai_request.h"

#include "serve/json_output.h"
#include "serve/request_fields.h"

namespace perigee {
namespace {

constexpr std::int64_t kMostTopLogprobs = 20;

void read_logprobs(const JsonNode& request, ChatRequest& chat) {
  chat.logprobs = find_boolean(request, "logprobs", "").value_or(false);
  const auto top = find_integer(request, "top_logprobs", 0, kMostTopLogprobs);
  if (top && !chat.logprobs) refuse("top_logprobs", "needs logprobs to be true");
  chat.top_logprobs = static_cast<std::size_t>(top.value_or(0));
}

// What it says has been checked, or will be, by read_conversation().
bool wants_strict(const JsonNode& request) {
  const JsonNode* format = find_set(request, "response_format");
  const JsonNode* schema = format == nullptr ? nullptr : find_set(*format, "json_schema");
  const JsonNode* strict = schema == nullptr ? nullptr : find_set(*schema, "strict");
  return strict == nullptr || strict->is_true();
}

}  // namespace

StreamOptions read_stream_options(const JsonNode& request) {
  StreamOptions stream;
  stream.wanted = find_boolean(request, "stream", "").value_or(false);
  const JsonNode* options = find_set(request, "stream_options");
  if (options == nullptr) return stream;
  const std::string param = "stream_options";
  if (!options->is(JsonKind::kObject)) refuse(param, "is {}; it must be an object", shown(*options));
  if (!stream.wanted) refuse(param, "needs stream to be true");
  stream.include_usage = find_boolean(*options, "include_usage", param).value_or(false);
  stream.continuous_usage = find_boolean(*options, "continuous_usage_stats", param).value_or(false);
  stream.include_internal_content = find_boolean(*options, "include_internal_content", param).value_or(false);
  return stream;
}

void check_one_choice(const JsonNode& request) {
  if (find_integer(request, "n").value_or(1) != 1) {
    refuse("n", "must be 1; send the request once for every answer, the prompt is read only once");
  }
}

ChatRequest read_chat_request(const JsonNode& request, const ServeContext& context) {
  check_request_model(request, context.model);
  ChatRequest chat;
  chat.stream = read_stream_options(request);
  check_one_choice(request);
  chat.sampling = read_sampling(request, context.options.vendor_contract);
  chat.stop = read_stop(request);
  chat.max_tokens = read_max_tokens(request, chat.max_tokens_param);
  read_logprobs(request, chat);
  chat.priority = read_priority(request, context.options.urgent_requests);
  chat.rules.one_call = !find_boolean(request, "parallel_tool_calls", "").value_or(true);
  chat.rules.strict_response = wants_strict(request);
  ConversationRules rules;
  rules.image_size = context.image_size;
  chat.conversation = read_conversation(request, rules);
  return chat;
}

}  // namespace perigee
