#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace perigee {
namespace {

int open_retrying(const char* path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path, flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

struct Opened {
  int fd;
  bool direct;
};

Opened open_with_caching(const std::filesystem::path& path, int flags, Caching caching) {
  if (caching == Caching::kDirect) {
    const int fd = open_retrying(path.c_str(), flags | O_DIRECT);
    if (fd >= 0) return {fd, true};
    if (errno != EINVAL) return {-1, false};
  }
  return {open_retrying(path.c_str(), flags), false};
}

}  // namespace

File::File(int fd, bool direct, std::filesystem::path path)
    : fd_(fd), direct_(direct), path_(std::move(path)) {}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), direct_(other.direct_), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    direct_ = other.direct_;
    path_ = std::move(other.path_);
  }
  return *this;
}

File File::open_read(const std::filesystem::path& path, Caching caching) {
  // Before opening: opening a pipe that nobody writes to would wait for ever.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_errno(errno, fmt::format("cannot open {}", path.string()));
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::kIo, "cannot open {}: not a regular file", path.string());
  const Opened opened = open_with_caching(path, O_RDONLY, caching);
  if (opened.fd < 0) fail_errno(errno, fmt::format("cannot open {}", path.string()));
  return File(opened.fd, opened.direct, path);
}

File File::create(const std::filesystem::path& path, Caching caching) {
  const Opened opened = open_with_caching(path, O_RDWR | O_CREAT | O_TRUNC, caching);
  if (opened.fd < 0) fail_errno(errno, fmt::format("cannot create {}", path.string()));
  return File(opened.fd, opened.direct, path);
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail_errno(errno, fmt::format("cannot stat {}", path_.string()));
  return static_cast<std::uint64_t>(status.st_size);
}

std::int64_t File::modified_ns() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail_errno(errno, fmt::format("cannot stat {}", path_.string()));
  return static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

void File::read_exact(std::span<std::byte> buffer, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t n =
        ::pread(fd_, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(errno, fmt::format("cannot read {} at byte {}", path_.string(), offset + done));
    if (n == 0) {
      fail(ErrorCode::kCorrupt, "{} ends at byte {}, but {} bytes at {} were expected; the file is truncated",
           path_.string(), offset + done, buffer.size(), offset);
    }
    done += static_cast<std::size_t>(n);
  }
}

void File::write_exact(std::span<const std::byte> buffer, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t n =
        ::pwrite(fd_, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(errno, fmt::format("cannot write {} at byte {}", path_.string(), offset + done));
    if (n == 0) fail_errno(ENOSPC, fmt::format("cannot write {} at byte {}", path_.string(), offset + done));
    done += static_cast<std::size_t>(n);
  }
}

void File::preallocate(std::uint64_t size) const {
  if (size == 0) return;
  int result = 0;
  do {
    result = ::fallocate(fd_, 0, 0, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return;
  fail_errno(errno, fmt::format("cannot reserve {} bytes for {}", size, path_.string()));
}

void File::truncate(std::uint64_t size) const {
  int result = 0;
  do {
    result = ::ftruncate(fd_, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result != 0) fail_errno(errno, fmt::format("cannot set the size of {} to {}", path_.string(), size));
}

void File::sync() const {
  int result = 0;
  do {
    result = ::fsync(fd_);
  } while (result != 0 && errno == EINTR);
  if (result != 0) fail_errno(errno, fmt::format("cannot sync {}", path_.string()));
}

void File::drop_cache() const {
  (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

void File::close() {
  if (fd_ < 0) return;
  const int result = ::close(std::exchange(fd_, -1));
  if (result != 0 && errno != EINTR) fail_errno(errno, fmt::format("cannot close {}", path_.string()));
}

void sync_directory(const std::filesystem::path& directory) {
  const int fd = open_retrying(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) fail_errno(errno, fmt::format("cannot open folder {}", directory.string()));
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  // Some network file systems cannot sync a folder; their rename is already durable.
  if (result != 0 && error_number != EINVAL) {
    fail_errno(error_number, fmt::format("cannot sync folder {}", directory.string()));
  }
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    fail_errno(errno, fmt::format("cannot rename {} to {}", from.string(), to.string()));
  }
  sync_directory(to.parent_path());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           const std::filesystem::path& temporary) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(bytes));
  write_file_atomically(path, std::span(&piece, 1), temporary);
}

void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> pieces,
                           const std::filesystem::path& temporary) {
  const std::filesystem::path partial =
      temporary.empty() ? std::filesystem::path(path.string() + ".partial") : temporary;
  try {
    File file = File::create(partial);
    std::uint64_t offset = 0;
    for (const std::span<const std::byte> piece : pieces) {
      file.write_exact(piece, offset);
      offset += piece.size();
    }
    file.sync();
    file.close();
    rename_durably(partial, path);
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
}

std::string read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const File file = File::open_read(path);
  const std::uint64_t size = file.size();
  if (size > max_bytes) {
    fail(ErrorCode::kCorrupt, "{} has {} bytes, more than the {} that such a file may have", path.string(),
         size, max_bytes);
  }
  std::string bytes(size, '\0');
  file.read_exact(std::as_writable_bytes(std::span(bytes)), 0);
  return bytes;
}

}  // namespace perigee
