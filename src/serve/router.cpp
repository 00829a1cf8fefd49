#include "serve/router.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <span>

#include "base/hash.h"

namespace perigee {
namespace {

constexpr std::string_view kNameInBraces = "/{";

std::string digest_of(std::string_view key) {
  return sha256_hex(std::as_bytes(std::span(key.data(), key.size())));
}

bool matches(const Route& route, std::string_view path) {
  const std::size_t brace = route.path.find(kNameInBraces);
  if (brace == std::string::npos) return path == route.path;
  return path.size() > brace + 1 && path.starts_with(std::string_view(route.path).substr(0, brace + 1));
}

// "localhost" of "LOCALHOST:8080", "[::1]" of "[::1]:8080".
std::string_view without_port(std::string_view host) {
  const std::size_t from = host.starts_with('[') ? host.find(']') : 0;
  const std::size_t colon = from == std::string_view::npos ? from : host.find(':', from);
  return host.substr(0, colon);
}

std::string_view presented_key(const HttpRequest& head) {
  constexpr std::string_view kBearer = "Bearer ";
  if (const auto value = head.headers.find("Authorization")) {
    if (value->size() > kBearer.size() && equal_without_case(value->substr(0, kBearer.size()), kBearer)) {
      return value->substr(kBearer.size());
    }
  }
  return head.headers.find("x-api-key").value_or("");
}

std::uint64_t declared_length(const HttpRequest& head) {
  std::uint64_t length = 0;
  if (const auto value = head.headers.find("Content-Length")) {
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), length);
    if (error != std::errc() || end != value->data() + value->size()) {
      throw ApiError(ApiFault::kInvalidRequest, "Content-Length is not a number");
    }
  }
  return length;
}

// Adds what belongs on every answer of a router.
class MarkedExchange final : public HttpExchange {
 public:
  MarkedExchange(std::shared_ptr<HttpExchange> inner, HttpHeaders added,
                 std::function<void(int status)> on_answer)
      : inner_(std::move(inner)), added_(std::move(added)), on_answer_(std::move(on_answer)) {}

  void respond(HttpResponse response) override { inner_->respond(marked(std::move(response))); }
  void promise_stream(StreamPromise promise) override {
    add_headers(promise.head);
    inner_->promise_stream(std::move(promise));
  }
  void start_stream(HttpResponse head, std::string heartbeat) override {
    inner_->start_stream(marked(std::move(head)), std::move(heartbeat));
  }
  bool write(std::string text) override { return inner_->write(std::move(text)); }
  void finish() override { inner_->finish(); }
  void on_gone(std::function<void()> callback) override {
    inner_->on_gone([gone = gone_, callback = std::move(callback)] {
      gone->store(true);
      callback();
    });
  }

 private:
  void add_headers(HttpResponse& response) const {
    for (const auto& [name, value] : added_.fields()) response.headers.add(name, value);
  }

  HttpResponse marked(HttpResponse response) const {
    add_headers(response);
    if (on_answer_ && !gone_->load()) on_answer_(response.status);  // nobody gets the others
    return response;
  }

  std::shared_ptr<HttpExchange> inner_;
  HttpHeaders added_;
  std::function<void(int)> on_answer_;
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

Router::Router(RouterOptions options) : options_(std::move(options)) {
  for (const std::string& key : options_.keys) key_digests_.push_back(digest_of(key));
}

void Router::add(Route route) {
  routes_.push_back(std::move(route));
}

const Route* Router::find(const HttpRequest& head) const {
  bool path_known = false;
  for (const Route& route : routes_) {
    if (!matches(route, head.path)) continue;
    if (route.method == head.method) return &route;
    path_known = true;
  }
  if (path_known) {
    throw ApiError(ApiFault::kMethodNotAllowed,
                   fmt::format("{} does not answer {}; ask for one of: {}", head.path, head.method,
                               allowed_methods(head.path)));
  }
  throw ApiError(ApiFault::kNotFound, fmt::format("{} is not served here; /openapi.json lists what is",
                                                  head.path.size() > 100 ? "this path" : head.path));
}

std::string Router::allowed_methods(std::string_view path) const {
  std::string methods;
  for (const Route& route : routes_) {
    if (matches(route, path)) methods += (methods.empty() ? "" : ", ") + route.method;
  }
  return methods;
}

// Every key is compared, in constant time, so that neither its bytes nor its place can be measured.
std::optional<std::size_t> Router::key_of(const HttpRequest& head) const {
  const std::string digest = digest_of(presented_key(head));
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < key_digests_.size(); ++i) {
    if (CRYPTO_memcmp(digest.data(), key_digests_[i].data(), digest.size()) == 0) found = i;
  }
  return found;
}

bool Router::origin_allowed(std::string_view origin, std::string_view host) const {
  for (const std::string& allowed : options_.cors_origins) {
    if (allowed == "*" || equal_without_case(allowed, origin)) return true;
  }
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && equal_without_case(origin.substr(scheme + 3), host);
}

void Router::check_browser(const HttpRequest& head) const {
  const std::string_view host = head.headers.find("Host").value_or("");
  const auto known = [&](const std::string& name) { return equal_without_case(name, without_port(host)); };
  if (!options_.hosts.empty() && !host.empty() &&
      std::none_of(options_.hosts.begin(), options_.hosts.end(), known)) {
    throw ApiError(ApiFault::kForbidden,
                   "this server has no key and answers by its local names only; call it as localhost, or "
                   "start it with --api-key");
  }
  const auto origin = head.headers.find("Origin");
  if (origin && !origin_allowed(*origin, host)) {
    throw ApiError(ApiFault::kForbidden,
                   "pages of this origin may not ask; start the server with --cors-origin for it");
  }
}

HttpHeaders Router::cors_headers(const HttpRequest& head) const {
  HttpHeaders headers;
  const auto origin = head.headers.find("Origin");
  if (!origin || options_.cors_origins.empty()) return headers;
  if (!origin_allowed(*origin, head.headers.find("Host").value_or(""))) return headers;
  headers.add("Access-Control-Allow-Origin", std::string(*origin));
  headers.add("Access-Control-Expose-Headers", "*");
  headers.add("Vary", "Origin");
  return headers;
}

void Router::check_head(const HttpRequest& head) const {
  check_browser(head);
  const Route& route = *find(head);
  if (!route.open && !key_digests_.empty() && !key_of(head)) {
    throw ApiError(ApiFault::kUnauthenticated,
                   presented_key(head).empty()
                       ? "a key is needed; send it as Authorization: Bearer KEY or x-api-key: KEY"
                       : "the key is not one of this server's; check Authorization and x-api-key");
  }
  if (std::max<std::uint64_t>(declared_length(head), head.body.size()) > options_.max_body_bytes) {
    throw ApiError(ApiFault::kTooLarge, fmt::format("the body is longer than the {} bytes that are allowed",
                                                    options_.max_body_bytes));
  }
}

HttpResponse Router::preflight(const HttpRequest& head) const {
  check_browser(head);
  HttpResponse response;
  response.status = 204;
  response.headers = cors_headers(head);
  const std::string methods = allowed_methods(head.path);
  response.headers.add("Access-Control-Allow-Methods", methods);
  response.headers.add("Access-Control-Allow-Headers",
                       std::string(head.headers.find("Access-Control-Request-Headers").value_or("*")));
  response.headers.add("Access-Control-Max-Age", "600");
  response.headers.add("Allow", methods);
  return response;
}

std::optional<HttpResponse> Router::answer_head(const HttpRequest& head) const {
  try {
    if (head.method == "OPTIONS") return preflight(head);
    check_head(head);
  } catch (const std::exception& error) {
    return refused(api_error_of(error), head);
  }
  return std::nullopt;
}

HttpResponse Router::refused(const ApiError& error, const HttpRequest& request) const {
  HttpResponse response = error_response(error, dialect_of_path(request.path));
  const HttpHeaders added = cors_headers(request);
  for (const auto& [name, value] : added.fields()) response.headers.add(name, value);
  if (error.fault() == ApiFault::kMethodNotAllowed) {
    response.headers.add("Allow", allowed_methods(request.path));
  }
  if (options_.on_answer) options_.on_answer("refused", response.status);
  return response;
}

void Router::handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) const {
  if (auto answer = answer_head(request)) {
    exchange->respond(std::move(*answer));
    return;
  }
  const Route& route = *find(request);
  const auto on_answer = [this, path = route.path](int status) {
    if (options_.on_answer) options_.on_answer(path, status);
  };
  const auto marked = std::make_shared<MarkedExchange>(exchange, cors_headers(request), on_answer);
  try {
    route.handler(request, marked);
  } catch (const std::exception& error) {
    marked->respond(error_response(api_error_of(error), dialect_of_path(request.path)));
  }
}

std::string Router::client_of(const HttpRequest& request) const {
  if (const auto key = key_of(request)) return fmt::format("key {}", *key);
  return request.peer;
}

}  // namespace perigee
