#include "cli/byte_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace perigee {
namespace {

constexpr int kPollMilliseconds = 200;

std::string read_all(int fd, const std::string& name, const CancelToken& cancel) {
  std::string bytes;
  std::array<char, 1 << 16> piece;
  for (;;) {
    wait_for_input(fd, cancel);
    const ssize_t count = ::read(fd, piece.data(), piece.size());
    if (count == 0) return bytes;
    if (count > 0) {
      bytes.append(piece.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR && errno != EAGAIN) {
      fail_errno(errno, fmt::format("cannot read {}", name));
    }
  }
}

}  // namespace

// poll() returns when a signal comes, which read() does not (cli/signals.cpp asks for restarted calls).
void wait_for_input(int fd, const CancelToken& cancel) {
  pollfd waiting{fd, POLLIN, 0};
  do {
    cancel.check();
  } while (::poll(&waiting, 1, kPollMilliseconds) <= 0);
}

std::string input_name(const std::string& file) {
  return file == kStandardInput ? "standard input" : file;
}

std::string read_input(const std::string& file, const CancelToken& cancel) {
  if (file == kStandardInput) {
    if (::isatty(STDIN_FILENO) != 0) std::fputs("reading from the terminal; Ctrl-D ends the text\n", stderr);
    return read_all(STDIN_FILENO, input_name(file), cancel);
  }
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno(errno, fmt::format("cannot open {}", file));
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } const closer{fd};
  return read_all(fd, file, cancel);
}

void write_output(std::string_view bytes) {
  errno = 0;
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return;
  const int error = errno;
  if (error == EPIPE) throw std::system_error(error, std::generic_category());
  fail_errno(error, "cannot write the output");
}

void OutputBuffer::flush() {
  write_output(bytes_);
  bytes_.clear();
}

}  // namespace perigee
