#include "serve/http_wire.h"

#include <fmt/format.h>

#include <array>
#include <ctime>

namespace perigee {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 529:
      return "Overloaded";
    default:
      return "Answer";
  }
}

// RFC 9110, 15.3.5 and 15.4.5.
bool never_has_body(int status) {
  return status == 204 || status == 304;
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text.data(), length);
}

std::string head_bytes(const HttpResponse& response, const WireOptions& options, const std::string& framing) {
  std::string bytes = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nServer: perigee\r\nConnection: {}\r\n{}",
                                  response.status, reason_of(response.status), date_now(),
                                  options.keep_alive ? "keep-alive" : "close", framing);
  if (!never_has_body(response.status)) {
    bytes += fmt::format("Content-Type: {}\r\nX-Content-Type-Options: nosniff\r\n", response.content_type);
  }
  for (const auto& [name, value] : response.headers.fields()) bytes += fmt::format("{}: {}\r\n", name, value);
  return bytes + "\r\n";
}

}  // namespace

std::string response_bytes(const HttpResponse& response, const WireOptions& options) {
  const std::string length =
      never_has_body(response.status) ? "" : fmt::format("Content-Length: {}\r\n", response.body.size());
  return head_bytes(response, options, length) + (options.omit_body ? "" : response.body);
}

std::string stream_head_bytes(const HttpResponse& head, const WireOptions& options) {
  return head_bytes(head, options, options.chunked ? "Transfer-Encoding: chunked\r\n" : "");
}

std::string stream_bytes(std::string_view text, const WireOptions& options) {
  if (!options.chunked) return std::string(text);
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

std::string stream_end_bytes(const WireOptions& options) {
  return options.chunked ? "0\r\n\r\n" : "";
}

}  // namespace perigee
