// Many clients of one server on loopback, run by one thread, so that measuring costs the server little of the
// machine. Speaks just enough HTTP and of streams to time them. Refuses every host but this machine: it is a
// load generator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"

namespace perigee {

// Where a server listens.
struct LoadTarget {
  std::string host;
  std::uint16_t port = 0;
};

// Of "http://127.0.0.1:8080". kUsage for what is no such address, or not of this machine.
LoadTarget load_target(std::string_view url);

// One question, one answer, waited for. kIo if there is none, kInternal with its text for a status other than
// 200.
std::string ask(const LoadTarget& target, const std::string& method, const std::string& path,
                const std::string& body = {});

struct StreamRecord {
  int status = 0;                                          // 0: the connection broke
  double first_seconds = 0;                                // from sending to the first piece of text
  std::vector<float> gaps;                                 // seconds between pieces of text
  std::uint64_t prompt_tokens = 0, completion_tokens = 0;  // as the server counts
  bool complete() const { return status == 200 && completion_tokens > 0; }
};

struct LoadResult {
  double seconds = 0;
  std::vector<StreamRecord> records;
};

// Sends the bodies as streaming chat requests, `at_once` of them under way all the time, on kept connections.
LoadResult run_load(const LoadTarget& target, const std::vector<std::string>& bodies, std::size_t at_once,
                    const CancelToken& cancel);

// Connections that are held open, with nothing or with a stream that waits.
class HeldConnections {
 public:
  explicit HeldConnections(LoadTarget target);
  ~HeldConnections();  // closes all
  HeldConnections(const HeldConnections&) = delete;
  HeldConnections& operator=(const HeldConnections&) = delete;

  // Opens `count` more, each of which sends `request` and waits until it has received `mark`. Returns how
  // many got there before `seconds` had passed.
  std::size_t open(std::size_t count, const std::string& request, const std::string& mark, double seconds,
                   const CancelToken& cancel);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

std::string get_request(const std::string& path);
std::string post_request(const std::string& path, const std::string& body);

}  // namespace perigee
