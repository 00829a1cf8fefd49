#include "serve/plain_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace perigee::test {
namespace {

constexpr int kPatienceSeconds = 20;

int connected(int family, const sockaddr* address, socklen_t length) {
  const int descriptor = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(descriptor, address, length) == 0) return descriptor;
  ::close(descriptor);
  throw std::runtime_error("cannot connect");
}

int connect_to(const std::string& url) {
  constexpr std::string_view kUnix = "unix:";
  if (url.starts_with(kUnix)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, url.c_str() + kUnix.size(), sizeof(address.sun_path) - 1);
    return connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  return connected(AF_INET, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

}  // namespace

PlainClient::PlainClient(const std::string& url) : descriptor_(connect_to(url)) {}

PlainClient::~PlainClient() {
  leave();
}

void PlainClient::leave() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void PlainClient::break_off() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  leave();
}

void PlainClient::send(const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(descriptor_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed; its answer may still be read
    at += static_cast<std::size_t>(sent);
  }
}

bool PlainClient::read_more() {
  std::array<char, 4096> piece;
  const ssize_t got = ::recv(descriptor_, piece.data(), piece.size(), 0);
  if (got <= 0) return false;
  received_.append(piece.data(), static_cast<std::size_t>(got));
  return true;
}

std::string PlainClient::read_until(const std::string& mark) {
  std::size_t at;
  while ((at = received_.find(mark)) == std::string::npos) {
    if (!read_more()) return std::exchange(received_, {});
  }
  std::string text = received_.substr(0, at + mark.size());
  received_.erase(0, at + mark.size());
  return text;
}

bool PlainClient::read_end() {
  if (!received_.empty()) return false;
  char byte;
  return ::recv(descriptor_, &byte, 1, 0) == 0;
}

PlainAnswer PlainClient::read_answer() {
  PlainAnswer answer;
  answer.head = read_until("\r\n\r\n");
  if (!answer.head.starts_with("HTTP/1.1 ")) return {};
  answer.status = std::stoi(answer.head.substr(9, 3));
  const std::size_t length = answer.head.find("Content-Length: ");
  if (length != std::string::npos) {
    const std::size_t size = std::stoul(answer.head.substr(length + 16));
    while (received_.size() < size && read_more()) {
    }
    answer.body = received_.substr(0, size);
    received_.erase(0, size);
  }
  if (answer.head.find("Transfer-Encoding: chunked") == std::string::npos) return answer;
  while (true) {
    const std::string line = read_until("\r\n");
    const std::size_t size = line.empty() ? 0 : std::stoul(line, nullptr, 16);
    while (received_.size() < size + 2 && read_more()) {
    }
    answer.body += received_.substr(0, size);
    received_.erase(0, size + 2);
    if (size == 0) return answer;
  }
}

std::string post_bytes(const std::string& path, const std::string& body, const std::string& headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), headers, body);
}

std::string get_bytes(const std::string& path, const std::string& headers) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers);
}

}  // namespace perigee::test
