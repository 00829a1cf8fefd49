#include "serve/answer_parts.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

namespace perigee {

std::int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string new_answer_id(const char* prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, static_cast<std::uint32_t>(unix_seconds()), random(),
                     random());
}

HttpResponse event_stream_head() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers.add("Cache-Control", "no-cache");
  head.headers.add("X-Accel-Buffering", "no");  // proxies that would wait for more
  return head;
}

StreamPromise event_stream_promise(std::string before_error, std::string behind_error) {
  return {.head = event_stream_head(),
          .heartbeat = kHeartbeat,
          .before_error = std::move(before_error),
          .behind_error = std::move(behind_error)};
}

std::string event_text(const Json& json) {
  return "data: " + json_text(json) + "\n\n";
}

}  // namespace perigee
