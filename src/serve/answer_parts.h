// What answers of every dialect are made of.
#pragma once

#include <cstdint>
#include <string>

#include "serve/http_message.h"
#include "serve/json_output.h"

namespace perigee {

// `prefix` and 24 hex digits: the time, then randomness.
std::string new_answer_id(const char* prefix);
std::int64_t unix_seconds();

// The head of an answer whose events follow one by one.
HttpResponse event_stream_head();
std::string event_text(const Json& json);  // "data: …\n\n"

inline constexpr const char* kHeartbeat = ": keep-alive\n\n";  // a comment, which no client shows
// Such an answer that waits in silence begins with heartbeats; `before` and `behind` make an event of an
// error.
StreamPromise event_stream_promise(std::string before_error, std::string behind_error);

}  // namespace perigee
