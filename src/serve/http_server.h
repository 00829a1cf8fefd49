// The transport: HTTP/1.1 with keep-alive on TCP or a socket file, with or without TLS. One thread does all
// input and output, so that thousands of idle streams cost little; a few workers read requests. Knows no
// routes (router.h). Deliberately no HTTP/2 and no compression: put a proxy in front for those.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "serve/metrics.h"
#include "serve/router.h"

namespace perigee {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // empty: no TCP
  std::uint16_t port = 8080;       // 0: a free one
  std::filesystem::path socket_file;
  std::filesystem::path certificate, private_key;  // PEM; both or none; TCP only
  std::size_t max_connections = 4096;
  std::size_t max_head_bytes = std::size_t{32} << 10;
  std::size_t max_backlog_bytes = std::size_t{8} << 20;  // of a stream whose client does not read
  unsigned workers = 2;
  std::chrono::milliseconds head_timeout = std::chrono::seconds(75);  // also of an idle connection
  std::chrono::milliseconds body_timeout = std::chrono::seconds(120);
  std::chrono::milliseconds write_timeout = std::chrono::seconds(30);  // for the next 64 KiB
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
};

class HttpServer {
 public:
  // Listens at once. Keeps references. kIo or kUsage naming an address or a file of TLS.
  HttpServer(const Router& router, ServerMetrics& metrics, HttpServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:8080", "unix:/run/perigee.sock".
  const std::vector<std::string>& urls() const;

  // Answers requests until drained.
  void run();

  // No new connections and requests; run() returns when all that is being answered is, or after `at_most`,
  // when the rest is cut off. Any thread.
  void drain(std::chrono::milliseconds at_most);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
