#include "base/disk_rate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kChunkBytes = 16ull << 20;
constexpr std::uint64_t kMaxBytes = 4ull << 30;
constexpr std::uint64_t kKeepFree = 1'000'000'000;

struct RemoveOnExit {
  fs::path path;
  ~RemoveOnExit() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

struct Chunk {
  Chunk() : memory(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, kChunkBytes))) {
    if (!memory) throw std::bad_alloc();
    std::uint64_t state = 0x9E3779B97F4A7C15;  // xorshift: nothing that a file system could compress
    for (std::size_t i = 0; i < kChunkBytes; ++i) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      memory.get()[i] = static_cast<std::byte>(state);
    }
  }
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::span<std::byte> span() const { return {memory.get(), kChunkBytes}; }
  std::unique_ptr<std::byte, Free> memory;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

fs::path existing_folder(const fs::path& folder) {
  fs::path path = fs::absolute(folder);
  std::error_code ignored;
  while (!fs::is_directory(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::uint64_t free_bytes(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(existing_folder(folder), error);
  if (error) fail_errno(error.value(), "cannot ask for the free space of " + folder.string());
  return space.available;
}

DiskRate measure_disk(const fs::path& folder, double seconds, const CancelToken& cancel) {
  const fs::path path = existing_folder(folder) / fmt::format(".perigee-disk-rate-{}.partial", ::getpid());
  const std::uint64_t available = free_bytes(folder);
  if (available < kKeepFree + kChunkBytes) {
    fail(ErrorCode::kNoSpace, "{} has only {} free, too little to measure its speed; give --rate instead",
         path.parent_path().string(), format_bytes(available));
  }
  const std::uint64_t limit = std::min(kMaxBytes, available - kKeepFree);
  const RemoveOnExit remove{path};
  const Chunk chunk;
  DiskRate rate;
  std::uint64_t written = 0;
  {
    const File file = File::create(path, Caching::kDirect);
    rate.direct = file.is_direct();
    const Clock::time_point start = Clock::now();
    while (written + kChunkBytes <= limit && (written == 0 || seconds_since(start) < seconds)) {
      cancel.check();
      file.write_exact(chunk.span(), written);
      written += kChunkBytes;
    }
    file.sync();
    rate.write_bytes_per_second = static_cast<double>(written) / seconds_since(start);
  }
  const File file = File::open_read(path, Caching::kDirect);
  const Clock::time_point start = Clock::now();
  std::uint64_t read = 0;
  while (read < written && (read == 0 || seconds_since(start) < seconds)) {
    cancel.check();
    file.read_exact(chunk.span(), read);
    read += kChunkBytes;
  }
  rate.read_bytes_per_second = static_cast<double>(read) / seconds_since(start);
  return rate;
}

}  // namespace perigee
