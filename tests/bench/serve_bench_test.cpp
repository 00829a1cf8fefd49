#include "bench/serve_bench.h"

#include <gtest/gtest.h>

#include "bench/load_client.h"
#include "bench/server_process.h"
#include "support/expect_error.h"

namespace perigee {
namespace {

TEST(ServeBench, PercentilesAreValuesThatOccurred) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(percentile(values, 0.5), 3);
  EXPECT_EQ(percentile(values, 0.99), 5);
  EXPECT_EQ(percentile(values, 0.2), 1);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

TEST(ServeBench, LoadsOnlyServersOfThisMachine) {
  EXPECT_EQ(load_target("http://127.0.0.1:8080").port, 8080);
  EXPECT_EQ(load_target("http://localhost:1/").host, "127.0.0.1");
  EXPECT_EQ(load_target("http://[::1]:65535").host, "::1");
  for (const char* url : {"http://10.0.0.1:80", "http://example.org:80", "http://127.0.0.1",
                          "http://localhost:x", "http://127.0.0.1.example.org:80", "https://127.0.0.1:1",
                          "http://127.0.0.1:70000", "http://127.0.0.1:0", "", "http://localhost:1/v1"}) {
    EXPECT_ERROR(load_target(url), ErrorCode::kUsage, "server of this machine");
  }
}

TEST(ServeBench, SaysWhyAServerDidNotStart) {
  EXPECT_ERROR(ServerProcess({"/bin/sh", "-c", "echo no model here >&2; exit 1"}, CancelToken{}),
               ErrorCode::kIo, "no model here");
}

TEST(ServeBench, ReadsWhereAServerListens) {
  const ServerProcess server(
      {"/bin/sh", "-c", "echo 'info: listening on http://127.0.0.1:5' >&2; exec sleep 60"}, CancelToken{});
  EXPECT_EQ(server.url(), "http://127.0.0.1:5");
  EXPECT_GT(resident_bytes(server.pid()), 0u);
}

}  // namespace
}  // namespace perigee
