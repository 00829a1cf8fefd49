#include "serve/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace perigee {
namespace {

constexpr int kBacklog = 512;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) fail(ErrorCode::kUsage, "--host {}: {}", host, ::gai_strerror(error));
  return Addresses(list);
}

std::string numeric_host(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(address, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return host.data();
}

// "127.0.0.1:8080", "[::1]:8080", with the port that the socket really has.
std::string bound_name(int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(descriptor, address, &length) != 0) fail_errno(errno, "cannot read a socket's address");
  const std::string host = numeric_host(address, length);
  if (storage.ss_family == AF_INET6) {
    return fmt::format("[{}]:{}", host, ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port));
  }
  return fmt::format("{}:{}", host, ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port));
}

ListeningSocket listen_on(const addrinfo& address, const std::string& host) {
  const int descriptor = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail_errno(errno, "cannot make a socket");
  ListeningSocket socket(descriptor, address.ai_family, host, {});
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ai_family == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (::bind(descriptor, address.ai_addr, address.ai_addrlen) != 0 || ::listen(descriptor, kBacklog) != 0) {
    fail_errno(errno, fmt::format("cannot listen on {} (choose another with --host and --port)",
                                  numeric_host(address.ai_addr, address.ai_addrlen)));
  }
  return ListeningSocket(socket.release(), address.ai_family, bound_name(descriptor), {});
}

// Names like "localhost" may have an address of a kind that this machine has switched off.
bool has_family(int family) {
  if (family != AF_INET6) return true;
  const int descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool bound = ::bind(descriptor, reinterpret_cast<const sockaddr*>(&loopback), sizeof(loopback)) == 0;
  ::close(descriptor);
  return bound;
}

sockaddr_un unix_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.empty() || name.size() >= sizeof(address.sun_path)) {
    fail(ErrorCode::kUsage, "--unix {}: must have 1 to {} bytes", name, sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  return address;
}

// Removes a socket file that nobody listens on.
void remove_stale(const std::filesystem::path& path, const sockaddr_un& address) {
  std::error_code ignored;
  if (!std::filesystem::is_socket(path, ignored)) return;
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  const int connected = ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool stale = connected != 0 && errno == ECONNREFUSED;
  ::close(descriptor);
  if (stale) std::filesystem::remove(path, ignored);
}

bool is_loopback_address(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

ListeningSocket::ListeningSocket(int descriptor, int family, std::string shown, std::filesystem::path file)
    : descriptor_(descriptor), family_(family), shown_(std::move(shown)), file_(std::move(file)) {}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : descriptor_(other.release()),
      family_(other.family_),
      shown_(std::move(other.shown_)),
      file_(std::exchange(other.file_, {})) {}

ListeningSocket::~ListeningSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!file_.empty()) ::unlink(file_.c_str());
}

int ListeningSocket::release() {
  return std::exchange(descriptor_, -1);
}

std::vector<ListeningSocket> listen_tcp(const std::string& host, std::uint16_t port) {
  std::vector<ListeningSocket> sockets;
  const Addresses addresses = resolve(host, port);
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    if (!sockets.empty() && (port == 0 || !has_family(one->ai_family))) continue;
    sockets.push_back(listen_on(*one, host));
  }
  return sockets;
}

ListeningSocket listen_unix(const std::filesystem::path& path) {
  const sockaddr_un address = unix_address(path);
  remove_stale(path, address);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail_errno(errno, "cannot make a socket");
  ListeningSocket socket(descriptor, AF_UNIX, "unix:" + path.string(), {});
  // Before it exists under its name, nobody can connect; fchmod on the unbound socket decides its file's
  // mode.
  if (::fchmod(descriptor, S_IRUSR | S_IWUSR) != 0 ||
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(descriptor, kBacklog) != 0) {
    fail_errno(errno, fmt::format("cannot listen on {}", path.string()));
  }
  return ListeningSocket(socket.release(), AF_UNIX, "unix:" + path.string(), path);
}

bool is_loopback(const std::string& host) {
  addrinfo* list = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return false;
  const Addresses addresses(list);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    if (!is_loopback_address(one->ai_addr)) return false;
  }
  return list != nullptr;
}

std::string peer_name(int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getpeername(descriptor, address, &length) != 0) return "?";
  return storage.ss_family == AF_UNIX ? "unix" : numeric_host(address, length);
}

}  // namespace perigee
