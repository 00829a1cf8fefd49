// Answers as bytes of HTTP/1.1. Requests are read by Boost.Beast; what we write ourselves is simpler written
// by hand.
#pragma once

#include <string>
#include <string_view>

#include "serve/http_message.h"

namespace perigee {

struct WireOptions {
  bool keep_alive = true;
  bool chunked = true;     // false for HTTP/1.0, whose streams end with the connection
  bool omit_body = false;  // for HEAD
};

std::string response_bytes(const HttpResponse& response, const WireOptions& options);
std::string stream_head_bytes(const HttpResponse& head, const WireOptions& options);
std::string stream_bytes(std::string_view text, const WireOptions& options);  // one chunk
std::string stream_end_bytes(const WireOptions& options);

}  // namespace perigee
