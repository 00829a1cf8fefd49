// A router with all routes over a scripted model: for tests without sockets.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/dialect.h"
#include "serve/recorded_exchange.h"
#include "serve/scripted_service.h"
#include "serve/web_routes.h"

namespace perigee::test {

class DialectFixture {
 public:
  explicit DialectFixture(const Tokenizer& tokenizer, RouterOptions options = {})
      : service(tokenizer),
        router(std::move(options)),
        context{.model = {.names = {"kimi-k3", "k3"}, .created = 1'790'000'000, .context_tokens = 1048576},
                .options = {},
                .tokenizer = tokenizer,
                .service = service,
                .metrics = metrics,
                .image_size = refuse_images()} {
    add_openai_routes(router, context);
    add_anthropic_routes(router, context);
    add_token_routes(router, context);
    add_state_routes(router, context);
    add_web_routes(router);
  }

  // As a transport does it: the head first, then the whole request.
  std::shared_ptr<RecordedExchange> ask(HttpRequest request) {
    auto exchange = std::make_shared<RecordedExchange>();
    HttpRequest head = request;
    head.body.clear();
    if (auto answer = router.answer_head(head)) {
      exchange->respond(std::move(*answer));
    } else {
      router.handle(request, exchange);
    }
    return exchange;
  }
  std::shared_ptr<RecordedExchange> post(const std::string& path, const std::string& body) {
    return ask({.method = "POST", .path = path, .query = {}, .headers = {}, .body = body, .peer = "test"});
  }
  std::shared_ptr<RecordedExchange> get(const std::string& path) {
    return ask({.method = "GET", .path = path, .query = {}, .headers = {}, .body = {}, .peer = "test"});
  }

  ScriptedService service;
  ServerMetrics metrics{"kimi-k3"};
  Router router;
  ServeContext context;
};

inline nlohmann::json body_of(const RecordedExchange& exchange) {
  return nlohmann::json::parse(exchange.head.body);
}

// The JSON of every "data:" line but [DONE].
inline std::vector<nlohmann::json> events_of(const std::string& stream) {
  std::vector<nlohmann::json> events;
  std::size_t at = 0;
  while ((at = stream.find("data: ", at)) != std::string::npos) {
    const std::size_t end = stream.find("\n\n", at);
    const std::string text = stream.substr(at + 6, end - at - 6);
    if (text != "[DONE]") events.push_back(nlohmann::json::parse(text));
    at = end;
  }
  return events;
}

}  // namespace perigee::test
