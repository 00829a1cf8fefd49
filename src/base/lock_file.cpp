#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"

namespace perigee {
namespace {

// Who looks at a lock holds it for a moment, and who took it has written its text a moment later: a lock that
// is held, or has no text, is looked at again before it is believed.
constexpr int kLooks = 40;
constexpr auto kBetweenLooks = std::chrono::milliseconds(5);

bool take(int fd, int kind, int looks, const std::filesystem::path& path) {
  for (int look = 1; ::flock(fd, kind | LOCK_NB) != 0; ++look) {
    if (errno != EWOULDBLOCK) fail_errno(errno, fmt::format("cannot lock {}", path.string()));
    if (look == looks) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

}  // namespace

LockFile::~LockFile() {
  if (fd_ >= 0) ::close(fd_);
}

LockFile::LockFile(LockFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::optional<LockFile> LockFile::try_take(const std::filesystem::path& path, const std::string& text) {
  LockFile lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.fd_ < 0) fail_errno(errno, fmt::format("cannot open {}", path.string()));
  if (!take(lock.fd_, LOCK_EX, kLooks, path)) return std::nullopt;
  const bool written = ::ftruncate(lock.fd_, 0) == 0 &&
                       ::pwrite(lock.fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) fail_errno(errno, fmt::format("cannot write {}", path.string()));
  return lock;
}

std::optional<std::string> LockFile::held_text(const std::filesystem::path& path) {
  const LockFile other(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (other.fd_ < 0) return std::nullopt;
  std::array<char, 256> text{};
  ssize_t length = 0;
  for (int look = 0; length == 0 && look < kLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(kBetweenLooks);
    if (take(other.fd_, LOCK_SH, 1, path)) return std::nullopt;
    length = ::pread(other.fd_, text.data(), text.size(), 0);
    if (length < 0) fail_errno(errno, fmt::format("cannot read {}", path.string()));
  }
  return std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace perigee
