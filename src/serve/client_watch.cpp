#include "serve/client_watch.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>

namespace perigee {
namespace {

// RFC 8446, 5.1 and 6: a record is its type, two bytes of version, two of length. An alert has type 21, or,
// encrypted as TLS 1.3 does it, type 23 and the length of two bytes, the true type and a tag of 16.
bool is_only_a_goodbye(int descriptor) {
  constexpr unsigned char kAlert = 21;
  constexpr unsigned char kEncrypted = 23;
  constexpr std::size_t kHeader = 5;
  constexpr std::size_t kEncryptedAlert = 2 + 1 + 16;
  std::array<unsigned char, kHeader + kEncryptedAlert + 1> bytes{};
  const ssize_t got = ::recv(descriptor, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got <= 0) return false;
  if (bytes[0] == kAlert) return true;
  return bytes[0] == kEncrypted && got == kHeader + kEncryptedAlert && bytes[3] == 0 &&
         bytes[4] == kEncryptedAlert;
}

}  // namespace

bool client_has_left(int descriptor, bool tls) {
  pollfd asked{.fd = descriptor, .events = POLLRDHUP, .revents = 0};
  if (::poll(&asked, 1, 0) > 0) return true;  // POLLRDHUP, or what is always told: POLLHUP, POLLERR
  return tls && is_only_a_goodbye(descriptor);
}

}  // namespace perigee
