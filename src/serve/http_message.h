// Requests and answers as the dialects see them: no sockets, no HTTP library. http_server.h carries them over
// a network; tests carry them in memory.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perigee {

bool equal_without_case(std::string_view a, std::string_view b);  // of ASCII letters

// Names compare without regard to case. In the order in which they came; few, so that looking is linear.
class HttpHeaders {
 public:
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  // The first value of that name.
  std::optional<std::string_view> find(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;  // upper case
  std::string path;    // without query, as it was sent
  std::string query;   // behind the "?", as it was sent
  HttpHeaders headers;
  std::string body;  // empty while only the head is known
  std::string peer;  // address of the other end, "unix" for a local socket
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;  // beyond type, length and what the transport adds
  std::string body;
};

// What an answer will be once there is something to say, for a client that must not be left in silence till
// then.
struct StreamPromise {
  HttpResponse head;
  std::string heartbeat;
  // A whole answer, which then is an error, becomes the stream's last event: its body between these.
  std::string before_error, behind_error;
};

// One request being answered: either whole, by respond(), or as a stream, by start_stream(), write() and
// finish(). All methods may be called from any thread and never wait for the network. What is called after
// the end, or for a client that has left, does nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void respond(HttpResponse response) = 0;

  // The answer will be a stream unless it is an error. If it does not begin for a while (a queue, a prefix
  // that is restored), the transport begins it and writes heartbeats; the head of start_stream() comes too
  // late then. Transports without time need not do anything.
  virtual void promise_stream(StreamPromise promise) { static_cast<void>(promise); }

  // Begins a stream; `head`'s body is ignored. Whenever nothing was written for a while, the transport writes
  // `heartbeat`, so that proxies and clients see that the work goes on.
  virtual void start_stream(HttpResponse head, std::string heartbeat) = 0;
  // False: the client has left, or reads so slowly that too much is waiting for it; stop working for it.
  virtual bool write(std::string text) = 0;
  virtual void finish() = 0;

  // Called once when the client leaves before the end, on a thread of the transport; at once if it has left
  // already. Never called after the end. Must be quick.
  virtual void on_gone(std::function<void()> callback) = 0;
};

}  // namespace perigee
