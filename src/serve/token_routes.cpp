// POST /tokenize and /detokenize, in vLLM's shape: what a prompt costs and what ids say, without the model.
#include "serve/completions.h"
#include "serve/json_output.h"
#include "serve/openai_request.h"
#include "serve/request_fields.h"
#include "text/prompt.h"

namespace perigee {
namespace {

constexpr const char* kTokenizeSchema =
    R"({"type":"object","properties":{"model":{"type":"string"},"prompt":{"type":["string","array"]},)"
    R"("messages":{"type":"array","items":{"type":"object"}},"tools":{"type":"array","items":{"type":"object"}}}})";
constexpr const char* kDetokenizeSchema =
    R"({"type":"object","required":["tokens"],"properties":{"model":{"type":"string"},)"
    R"("tokens":{"type":"array","items":{"type":"integer"}}}})";

std::vector<TokenId> ids_of(const JsonNode& request, const ServeContext& context) {
  if (find_set(request, "messages") == nullptr) return read_raw_prompt(request, context.tokenizer);
  ConversationRules rules;
  rules.image_size = context.image_size;
  const Conversation conversation = read_conversation(request, rules);
  return PromptEncoder(context.tokenizer).encode(build_prompt(conversation)).ids;
}

void answer_tokenize(const ServeContext& context, const HttpRequest& request,
                     const std::shared_ptr<HttpExchange>& exchange) {
  const JsonTree body = parse_body(request.body);
  check_request_model(body.root(), context.model);
  const std::vector<TokenId> ids = ids_of(body.root(), context);
  HttpResponse response;
  response.body =
      json_text({{"count", ids.size()}, {"max_model_len", context.model.context_tokens}, {"tokens", ids}});
  exchange->respond(std::move(response));
}

void answer_detokenize(const ServeContext& context, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange) {
  const JsonTree body = parse_body(request.body);
  check_request_model(body.root(), context.model);
  const JsonNode* tokens = find_set(body.root(), "tokens");
  if (tokens == nullptr) refuse("tokens", "is missing; send an array of token ids");
  const std::vector<TokenId> ids = read_ids(*tokens, "tokens", context.tokenizer.vocabulary());
  HttpResponse response;
  response.body = json_text({{"prompt", context.tokenizer.decode(ids)}});
  exchange->respond(std::move(response));
}

}  // namespace

void add_token_routes(Router& router, const ServeContext& context) {
  router.add({.method = "POST",
              .path = "/tokenize",
              .handler = [&context](const auto& request,
                                    const auto& exchange) { answer_tokenize(context, request, exchange); },
              .summary = "The ids of a text or of a conversation's prompt",
              .request_schema = kTokenizeSchema});
  router.add({.method = "POST",
              .path = "/detokenize",
              .handler = [&context](const auto& request,
                                    const auto& exchange) { answer_detokenize(context, request, exchange); },
              .summary = "The text of ids",
              .request_schema = kDetokenizeSchema});
}

}  // namespace perigee
