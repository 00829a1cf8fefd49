// What all the heavy work of packing shares: the disk, the workers, the way to stop, and the progress line.
#pragma once

#include <filesystem>
#include <memory>

#include "base/async_io.h"
#include "base/cancel.h"
#include "base/pipeline.h"
#include "base/progress.h"

namespace perigee {

struct WorkOptions {
  unsigned jobs = 0;  // worker threads, 0 = number of CPUs
  unsigned io_depth = 4;
  std::uint64_t memory_bytes = 320ull << 20;
  IoBackend io = IoBackend::kAuto;
  ProgressStyle progress = ProgressStyle::kAuto;
  const CancelToken* cancel = nullptr;
};

struct Workshop {
  Workshop(const WorkOptions& options, const std::string& label, std::uint64_t total_bytes)
      : io(make_async_io(options.io)),
        pipeline(*io, {options.jobs, options.io_depth, options.memory_bytes, options.cancel}),
        progress(label, total_bytes, options.progress) {}

  std::unique_ptr<AsyncIo> io;
  Pipeline pipeline;
  Progress progress;
};

// A stretch that bulk work reads at once.
inline constexpr std::uint64_t kStretch = 8ull << 20;

// XXH3-64 of a whole file as it is on the disk: past the page cache where the file system allows it.
std::uint64_t hash_from_disk(Workshop& work, const std::filesystem::path& path);

}  // namespace perigee
