// Listening sockets, by plain POSIX calls: TCP on an address, or a socket file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace perigee {

// Owns its descriptor, and its socket file.
class ListeningSocket {
 public:
  ListeningSocket(int descriptor, int family, std::string shown, std::filesystem::path file);
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  int family() const { return family_; }
  const std::string& shown() const { return shown_; }  // "127.0.0.1:8080", "unix:/run/perigee.sock"
  int release();                                       // the descriptor is the caller's from now on

 private:
  int descriptor_;
  int family_;
  std::string shown_;
  std::filesystem::path file_;  // removed at the end; empty: none
};

// All addresses that `host` has; port 0 takes a free one of the first. kIo naming the address, e.g. if it is
// in use.
std::vector<ListeningSocket> listen_tcp(const std::string& host, std::uint16_t port);

// Only the owner may connect (mode 0600). A socket file that nobody listens on any more is replaced.
ListeningSocket listen_unix(const std::filesystem::path& path);

// Whether only programs on this machine can reach `host`. False for a name that cannot be resolved.
bool is_loopback(const std::string& host);

// "192.0.2.7", "unix".
std::string peer_name(int descriptor);

}  // namespace perigee
