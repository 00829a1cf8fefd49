#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace perigee {

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
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    fail_errno(errno, fmt::format("cannot lock {}", path.string()));
  }
  const bool written = ::ftruncate(lock.fd_, 0) == 0 &&
                       ::pwrite(lock.fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) fail_errno(errno, fmt::format("cannot write {}", path.string()));
  return lock;
}

std::optional<std::string> LockFile::held_text(const std::filesystem::path& path) {
  const LockFile other(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (other.fd_ < 0) return std::nullopt;
  if (::flock(other.fd_, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return std::nullopt;
  std::array<char, 256> text{};
  const ssize_t length = ::pread(other.fd_, text.data(), text.size(), 0);
  if (length < 0) fail_errno(errno, fmt::format("cannot read {}", path.string()));
  return std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace perigee
