// An exchange that keeps what was sent: for tests without sockets.
#pragma once

#include <string>
#include <vector>

#include "serve/http_message.h"

namespace perigee::test {

class RecordedExchange final : public HttpExchange {
 public:
  void respond(HttpResponse response) override {
    ++answers;
    head = std::move(response);
    ended = true;
  }
  void start_stream(HttpResponse response, std::string between) override {
    ++answers;
    head = std::move(response);
    heartbeat = std::move(between);
    streaming = true;
  }
  bool write(std::string text) override {
    writes.push_back(std::move(text));
    return writes.size() < most_writes;
  }
  void finish() override { ended = true; }
  void on_gone(std::function<void()> callback) override { gone = std::move(callback); }

  std::string text() const {
    std::string all;
    for (const std::string& one : writes) all += one;
    return all;
  }

  HttpResponse head;
  std::string heartbeat;  // of a stream
  std::vector<std::string> writes;
  std::size_t most_writes = static_cast<std::size_t>(-1);  // then the client is gone
  std::function<void()> gone;
  int answers = 0;
  bool streaming = false;
  bool ended = false;
};

}  // namespace perigee::test
