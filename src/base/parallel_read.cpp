#include "base/parallel_read.h"

#include <algorithm>
#include <vector>

namespace perigee {

void read_stretches(ThreadPool& pool, std::span<const FileStretch> stretches) {
  constexpr std::size_t kPart = std::size_t{4} << 20;
  std::vector<FileStretch> parts;
  for (const FileStretch& stretch : stretches) {
    for (std::size_t at = 0; at < stretch.memory.size(); at += kPart) {
      const std::size_t bytes = std::min(kPart, stretch.memory.size() - at);
      parts.push_back({stretch.file, stretch.offset + at, stretch.memory.subspan(at, bytes)});
    }
  }
  pool.parallel_for(parts.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) parts[i].file->read_exact(parts[i].memory, parts[i].offset);
  });
}

}  // namespace perigee
