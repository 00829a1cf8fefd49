// Reads from files into memory with several threads: a copy from the page cache, and the clearing of memory
// that nobody has touched yet, are work for more than one core, and drives want more than one request at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"
#include "base/thread_pool.h"

namespace perigee {

struct FileStretch {
  const File* file = nullptr;
  std::uint64_t offset = 0;     // of the first byte in the file
  std::span<std::byte> memory;  // as many bytes are read
};

// Returns when all are read. Throws what File::read_exact() throws, of the first stretch that fails.
void read_stretches(ThreadPool& pool, std::span<const FileStretch> stretches);

}  // namespace perigee
