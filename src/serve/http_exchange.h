// An exchange between threads: handlers and the engine put output in, the transport takes it out. Bounded, so
// that a client that does not read costs little and is given up.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "serve/http_message.h"

namespace perigee {

class QueuedExchange final : public HttpExchange {
 public:
  // `wake` is called on any thread when there is something to take, or the exchange is over; never after
  // close(). `most_bytes`: what may wait to be taken while streaming.
  QueuedExchange(std::function<void()> wake, std::size_t most_bytes)
      : wake_(std::move(wake)), most_bytes_(most_bytes) {}

  void respond(HttpResponse response) override;
  void promise_stream(StreamPromise promise) override;
  void start_stream(HttpResponse head, std::string heartbeat) override;
  bool write(std::string text) override;
  void finish() override;
  void on_gone(std::function<void()> callback) override;

  // --- the transport's side ---
  struct Output {
    std::optional<HttpResponse> head;  // with the body, unless streaming
    bool streaming = false;
    std::string text;    // of the stream
    bool ended = false;  // nothing will follow
    bool empty() const { return !head && text.empty() && !ended; }
  };
  Output take();
  bool wants_heartbeats() const;  // streams, or has promised to
  // Nothing was taken for a while: a heartbeat is due, and with it the head of a promised stream.
  void note_silence();
  bool lost() const;  // closed, or to be closed because the client does not read
  // The transport is through with it; the client has left, unless the exchange has ended.
  void close();

 private:
  void wake_locked() const;

  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::function<void()> gone_;
  Output pending_;
  std::string heartbeat_;
  std::optional<StreamPromise> promise_;
  const std::size_t most_bytes_;
  bool streaming_ = false;
  bool begun_early_ = false;  // by the promise, and start_stream() has not been called yet
  bool ended_ = false;
  bool lost_ = false;
};

}  // namespace perigee
