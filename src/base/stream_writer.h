// Writes one file front to back with large asynchronous direct writes, under a temporary name until finish().
// The file's size is known in advance and reserved at once, so a full disk is found before hours of work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>

#include "base/async_io.h"
#include "base/file.h"

namespace perigee {

class StreamWriter {
 public:
  // Creates `path` (the caller's temporary name) with room for total_bytes. `io` must outlive the writer.
  StreamWriter(AsyncIo& io, const std::filesystem::path& path, std::uint64_t total_bytes);
  // Waits for writes under way; an unfinished file is removed.
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  // Appends bytes. Whole 4096-byte blocks are written straight from the caller's memory when its address is
  // congruent to position() modulo 4096 (lead_in() bytes after an aligned address); otherwise they are
  // copied. The memory must stay valid until the last copy of keep_alive dies; an empty handle forces a copy.
  // Throws the error of any earlier write.
  void append(std::span<const std::byte> bytes, const std::shared_ptr<void>& keep_alive);

  std::uint64_t position() const { return position_; }
  // Offset inside a 4096-byte block of file position `at`: where a buffer for zero-copy appends must start.
  static std::uint64_t lead_in(std::uint64_t at) { return at % kDirectAlignment; }

  // Waits, cuts the file to its exact size and syncs it to disk. kInternal if not exactly total_bytes were
  // appended.
  void finish();

  const std::filesystem::path& path() const { return path_; }

 private:
  void append_blocks(std::span<const std::byte> blocks, const std::shared_ptr<void>& keep_alive);
  void append_to_block(std::span<const std::byte> bytes);
  void flush_block();
  void write_async(std::span<const std::byte> bytes, std::uint64_t offset, std::shared_ptr<void> keep_alive);
  void wait_idle();
  void throw_failure();

  AsyncIo& io_;
  const std::filesystem::path path_;
  const std::uint64_t total_;
  File file_;
  std::uint64_t position_ = 0;
  std::shared_ptr<std::byte> block_;  // the unfinished 4096-byte block at the end
  bool finished_ = false;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::uint64_t in_flight_ = 0;
  int error_ = 0;
  std::uint64_t error_offset_ = 0;
};

}  // namespace perigee
