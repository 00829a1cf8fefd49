#include "bench/peer_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "bench/child_process.h"

namespace perigee {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20;

}  // namespace

// A socket, not two pipes: writing to a program that has ended is then an error of this call (MSG_NOSIGNAL)
// and no signal to the whole process.
PeerProcess::PeerProcess(std::vector<std::string> command) : command_(std::move(command)) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fail_errno(errno, "cannot make a socket pair");
  }
  socket_ = ends[0];
  try {
    pid_ = spawn_child(command_, {.input = ends[1], .output = ends[1]});
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
}

PeerProcess::~PeerProcess() {
  ::close(socket_);
  ::kill(pid_, SIGKILL);  // it keeps nothing that would need an orderly end
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void PeerProcess::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      fail_ended();
    }
  }
}

std::string PeerProcess::read_line() {
  std::size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (received_.size() > kLongestLine) {
      fail(ErrorCode::kIo, "{} answers with a line of more than {} bytes", fmt::join(command_, " "),
           kLongestLine);
    }
    std::array<char, 4096> part{};
    const ssize_t size = ::recv(socket_, part.data(), part.size(), 0);
    if (size == 0 || (size < 0 && errno != EINTR)) fail_ended();
    if (size > 0) received_.append(part.data(), static_cast<std::size_t>(size));
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

void PeerProcess::fail_ended() const {
  fail(ErrorCode::kIo, "{} ended before it answered; run it by hand to see why", fmt::join(command_, " "));
}

}  // namespace perigee
