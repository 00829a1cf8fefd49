// Which function answers which request, and what holds for all of them: keys, browsers, body sizes, errors.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_error.h"
#include "serve/http_message.h"

namespace perigee {

// Runs on a worker thread and may take its time for reading the request, not for generating. What it throws
// is answered in the dialect of the path. `exchange` may be kept.
using RouteHandler =
    std::function<void(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange)>;

struct Route {
  std::string method;
  // "/v1/models/{model}": the last part may be a name in braces, which then stands for one or more parts.
  std::string path;
  RouteHandler handler;
  // For the OpenAPI document.
  std::string summary;
  std::string request_schema;  // JSON schema of the body, as text; empty: no body
  bool open = false;           // answered without a key
  std::string answer_type = "application/json";
};

struct RouterOptions {
  std::vector<std::string> keys;          // empty: everybody may ask
  std::vector<std::string> cors_origins;  // whose pages may ask from a browser; "*": all
  // Host names by which browsers may call a server without keys; empty: any. Protects a server on loopback
  // against pages whose name was made to point there.
  std::vector<std::string> hosts;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  // Hears of every answer; `route` is the route's path, "refused" before a route was reached. May be empty.
  std::function<void(const std::string& route, int status)> on_answer;
};

class Router {
 public:
  explicit Router(RouterOptions options);

  void add(Route route);
  const std::vector<Route>& routes() const { return routes_; }
  const RouterOptions& options() const { return options_; }

  // What can be said before the body is read: no such route or method, a wrong key, a body that is declared
  // too long, a browser's question before its request. Unset: go on.
  std::optional<HttpResponse> answer_head(const HttpRequest& head) const;

  // answer_head(), then the route's handler.
  void handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) const;

  // The answer to a request that went wrong outside of a handler: a malformed head, a timeout. `request` is
  // what is known of it.
  HttpResponse refused(const ApiError& error, const HttpRequest& request) const;

  // Whom the request belongs to when turns are taken: the key if there are keys, else the peer.
  std::string client_of(const HttpRequest& request) const;

 private:
  const Route* find(const HttpRequest& head) const;  // never null
  std::string allowed_methods(std::string_view path) const;
  std::optional<std::size_t> key_of(const HttpRequest& head) const;
  bool origin_allowed(std::string_view origin, std::string_view host) const;
  void check_browser(const HttpRequest& head) const;
  void check_head(const HttpRequest& head) const;
  HttpResponse preflight(const HttpRequest& head) const;
  HttpHeaders cors_headers(const HttpRequest& head) const;

  RouterOptions options_;
  std::vector<std::string> key_digests_;
  std::vector<Route> routes_;
};

}  // namespace perigee
