// POST /v1/messages and POST /v1/messages/count_tokens.
#include <algorithm>

#include "base/hash.h"
#include "serve/anthropic_reply.h"
#include "serve/anthropic_request.h"
#include "serve/chat_reply.h"
#include "serve/request_fields.h"
#include "serve/thinking_budget.h"

namespace perigee {
namespace {

// Users of one key or address take turns with each other and with everybody else. Their names may be long
// and are nobody's business.
std::string client_of(const Router& router, const HttpRequest& request, const std::string& user) {
  const std::string client = router.client_of(request);
  if (user.empty()) return client;
  return fmt::format("{} user {}", client, sha256_hex(std::as_bytes(std::span(user.data(), user.size()))));
}

// A limit that the context has no room for is no error here: clients of this dialect must name one and do
// not count the prompt first. True if the context is what ends the reply.
bool set_limit(const ServeContext& context, std::size_t wanted, ReplyRequest& reply) {
  const std::size_t left = context.model.context_tokens - reply.prompt.ids.size();
  reply.max_tokens = std::min(wanted, left);
  return wanted > left;
}

void answer_messages(const Router& router, const ServeContext& context, const HttpRequest& request,
                     const std::shared_ptr<HttpExchange>& exchange) {
  const JsonTree body = parse_body(request.body);
  const MessagesRequest wanted = read_messages_request(body.root(), context);
  ReplyRequest reply = wanted.places.renaming(
      [&] { return chat_reply(context, wanted.chat, client_of(router, request, wanted.user)); });
  MessageFacts facts{.model = context.model.names.front()};
  facts.fills_context = set_limit(context, wanted.max_tokens, reply);
  const bool thinks = open_channel(reply.prompt.ids, context.tokenizer) == Channel::kThink;
  if (thinks && wanted.thinking_budget) {
    reply.sampling.filter =
        with_thinking_budget(std::move(reply.sampling.filter), *wanted.thinking_budget, context.tokenizer);
  }
  auto sink = wanted.chat.stream.wanted ? messages_stream(std::move(facts), exchange)
                                        : messages_answer(std::move(facts), exchange);
  start_reply(context, std::move(reply), std::move(sink), exchange);
}

void answer_count(const ServeContext& context, const HttpRequest& request,
                  const std::shared_ptr<HttpExchange>& exchange) {
  const JsonTree body = parse_body(request.body);
  const MessagesRequest wanted = read_count_request(body.root(), context);
  const ReplyRequest reply = reply_request_of(wanted.chat.conversation, context.tokenizer);
  HttpResponse response;
  response.body =
      json_text({{"input_tokens", counted_prompt_tokens(reply.prompt.ids, context.tokenizer.vocabulary())}});
  exchange->respond(std::move(response));
}

}  // namespace

void add_anthropic_routes(Router& router, const ServeContext& context) {
  router.add({.method = "POST",
              .path = "/v1/messages",
              .handler = [&router, &context](
                             const auto& request,
                             const auto& exchange) { answer_messages(router, context, request, exchange); },
              .summary = "Answers a conversation in blocks, whole or as a stream of events",
              .request_schema = messages_request_schema()});
  router.add({.method = "POST",
              .path = "/v1/messages/count_tokens",
              .handler = [&context](const auto& request,
                                    const auto& exchange) { answer_count(context, request, exchange); },
              .summary = "How many tokens such a conversation's prompt has",
              .request_schema = count_request_schema()});
}

}  // namespace perigee
