// A server under load, from outside: streaming chats of many clients at once over loopback, and what idle
// connections cost. It knows the server by its routes only (docs/serving.md). Deliberately loopback only, so
// the network is none and what is measured is the server.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"

namespace perigee {

struct ServeBenchOptions {
  std::vector<std::string> command;  // starts a server on a free port; empty: one runs at `url`
  std::string url;
  std::vector<std::size_t> concurrency = {1, 2, 4, 8, 16, 32};
  std::size_t requests_each = 4;  // of every client, at every concurrency
  std::size_t prompt_tokens = 64;
  std::size_t reply_tokens = 64;
  std::size_t idle = 1000;  // connections, and as many streams; 0: not measured, like without `command`
  std::function<void(const std::string&)> announce;
};

struct ServeLevel {
  std::size_t clients = 0, requests = 0, failed = 0;
  double seconds = 0;
  double prompt_tokens = 0, reply_tokens = 0;  // of a request, mean
  double requests_a_second = 0, tokens_a_second = 0;
  double first_token_p50 = 0, first_token_p99 = 0;  // seconds
  double token_p50 = 0, token_p99 = 0;              // seconds between pieces of text
  double overhead_a_token = 0;                      // seconds of the scheduler outside the model's steps
};

struct IdleCost {
  std::size_t connections = 0, streams = 0;                                            // that the server held
  std::uint64_t bytes_before = 0, bytes_with_connections = 0, bytes_with_streams = 0;  // resident
};

struct ServeBenchResult {
  std::string model;
  std::vector<ServeLevel> levels;
  IdleCost idle;
};

// Of sorted or unsorted values; 0 of none. `part` 0.99: the smallest that 99 % do not exceed.
double percentile(std::vector<double> values, double part);

// kUsage for a url of another machine, kIo for a server that does not answer.
ServeBenchResult bench_serve(const ServeBenchOptions& options, const CancelToken& cancel);

}  // namespace perigee
