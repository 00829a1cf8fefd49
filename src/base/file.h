// Files with explicit offsets: exact reads and writes, direct I/O, preallocation, and atomic replacement
// (temporary name, fsync, rename, fsync of the folder). Nothing here keeps a file position, so one File may
// be read from several threads. Every failure throws an Error that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace perigee {

// Alignment that O_DIRECT needs for offset, length and memory; every current file system accepts 4096.
inline constexpr std::size_t kDirectAlignment = 4096;

constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) {
  return value / alignment * alignment;
}
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return align_down(value + alignment - 1, alignment);
}

enum class Caching {
  kBuffered,  // through the page cache
  kDirect,    // O_DIRECT; falls back to kBuffered where the file system refuses it
};

class File {
 public:
  File() = default;
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  static File open_read(const std::filesystem::path& path, Caching caching = Caching::kBuffered);
  // Creates or truncates.
  static File create(const std::filesystem::path& path, Caching caching = Caching::kBuffered);

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool is_direct() const { return direct_; }
  const std::filesystem::path& path() const { return path_; }

  std::uint64_t size() const;
  // Modification time in nanoseconds since the epoch; with size(), notices a file that changes under us.
  std::int64_t modified_ns() const;

  // Reads exactly buffer.size() bytes; kCorrupt if the file ends before that. Not for direct files unless
  // aligned.
  void read_exact(std::span<std::byte> buffer, std::uint64_t offset) const;
  void write_exact(std::span<const std::byte> buffer, std::uint64_t offset) const;

  // Reserves disk blocks so that a full disk is found now; silently skipped where the file system cannot.
  void preallocate(std::uint64_t size) const;
  void truncate(std::uint64_t size) const;
  void sync() const;
  // Drops this file's clean pages from the page cache (best effort).
  void drop_cache() const;
  void close();

 private:
  File(int fd, bool direct, std::filesystem::path path);
  int fd_ = -1;
  bool direct_ = false;
  std::filesystem::path path_;
};

// fsyncs a folder, so that a rename in it survives a power cut.
void sync_directory(const std::filesystem::path& directory);

// Renames `from` to `to` (same file system) and fsyncs the folder of `to`.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Writes `bytes` to `path` so that a reader sees either the old file or the whole new one, even after a power
// cut. The temporary file is `<path>.partial` unless `temporary` is given.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           const std::filesystem::path& temporary = {});
// The same for bytes that lie in several places.
void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> pieces,
                           const std::filesystem::path& temporary = {});

// The whole file as a string; kCorrupt if it is larger than max_bytes (no unbounded allocation).
std::string read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace perigee
