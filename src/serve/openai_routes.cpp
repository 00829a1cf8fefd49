// POST /v1/chat/completions, POST /v1/completions and GET /v1/models.
#include "serve/chat_reply.h"
#include "serve/completions.h"
#include "serve/openai_json.h"
#include "serve/openai_stream.h"
#include "serve/request_fields.h"
#include "serve/responses_routes.h"

namespace perigee {
namespace {

constexpr std::string_view kModels = "/v1/models";

void answer_chat(const Router& router, const ServeContext& context, const HttpRequest& request,
                 const std::shared_ptr<HttpExchange>& exchange) {
  const JsonTree body = parse_body(request.body);
  const ChatRequest chat = read_chat_request(body.root(), context);
  ReplyRequest reply = chat_reply(context, chat, router.client_of(request));
  auto sink =
      chat.stream.wanted ? chat_stream(context, chat, exchange) : chat_answer(context, chat, exchange);
  start_reply(context, std::move(reply), std::move(sink), exchange);
}

Json model_json(const ServedModel& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "perigee"},
          {"max_model_len", model.context_tokens}};
}

void answer_models(const ServeContext& context, const std::shared_ptr<HttpExchange>& exchange) {
  Json list = Json::array();
  for (const std::string& name : context.model.names) list.push_back(model_json(context.model, name));
  HttpResponse response;
  response.body = json_text({{"object", "list"}, {"data", std::move(list)}});
  exchange->respond(std::move(response));
}

void answer_model(const ServeContext& context, const HttpRequest& request,
                  const std::shared_ptr<HttpExchange>& exchange) {
  const std::string name = request.path.substr(kModels.size() + 1);
  check_model_name(context.model, name, "model");
  HttpResponse response;
  response.body = json_text(model_json(context.model, name));
  exchange->respond(std::move(response));
}

}  // namespace

void add_openai_routes(Router& router, const ServeContext& context) {
  router.add({.method = "POST",
              .path = "/v1/chat/completions",
              .handler = [&router, &context](
                             const auto& request,
                             const auto& exchange) { answer_chat(router, context, request, exchange); },
              .summary = "Answers a conversation, whole or as a stream",
              .request_schema = chat_request_schema()});
  router.add({.method = "POST",
              .path = "/v1/completions",
              .handler = [&router, &context](
                             const auto& request,
                             const auto& exchange) { answer_completion(router, context, request, exchange); },
              .summary = "Goes on with a text, without any frames",
              .request_schema = completion_request_schema()});
  add_responses_routes(router, context);
  router.add({.method = "GET",
              .path = std::string(kModels),
              .handler = [&context](const auto&, const auto& exchange) { answer_models(context, exchange); },
              .summary = "The names under which the model is served",
              .request_schema = {}});
  router.add({.method = "GET",
              .path = std::string(kModels) + "/{model}",
              .handler = [&context](const auto& request,
                                    const auto& exchange) { answer_model(context, request, exchange); },
              .summary = "One of those names",
              .request_schema = {}});
}

}  // namespace perigee
