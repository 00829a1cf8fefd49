#include "serve/responses_routes.h"

#include "serve/chat_reply.h"
#include "serve/request_fields.h"
#include "serve/responses_reply.h"

namespace perigee {
namespace {

void answer_responses(const Router& router, const ServeContext& context, const HttpRequest& request,
                      const std::shared_ptr<HttpExchange>& exchange) {
  const JsonTree body = parse_body(request.body);
  const ResponsesRequest wanted = read_responses_request(body.root(), context);
  ReplyRequest reply =
      wanted.places.renaming([&] { return chat_reply(context, wanted.chat, router.client_of(request)); });
  auto sink =
      wanted.chat.stream.wanted ? responses_stream(wanted, exchange) : responses_answer(wanted, exchange);
  start_reply(context, std::move(reply), std::move(sink), exchange);
}

}  // namespace

void add_responses_routes(Router& router, const ServeContext& context) {
  router.add({.method = "POST",
              .path = "/v1/responses",
              .handler = [&router, &context](
                             const auto& request,
                             const auto& exchange) { answer_responses(router, context, request, exchange); },
              .summary = "Answers a conversation in items, whole or as a stream of events",
              .request_schema = responses_request_schema()});
}

}  // namespace perigee
