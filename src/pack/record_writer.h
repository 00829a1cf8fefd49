// Writes the records of one layer from the runs of a checkpoint, and reads records back.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "pack/record_plan.h"
#include "pack/workshop.h"

namespace perigee {

// A run of bytes in an open file.
struct FileRun {
  const File* file = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct SourceExpert {
  FileRun run;
  RunLayout layout;
};

// Copies values and scales to where `record` wants them; everything between is zero. The layouts describe the
// same matrices.
void copy_expert(const RunLayout& from, std::span<const std::byte> run, const RunLayout& to,
                 std::span<std::byte> record);

// Writes the layer's files, synced to disk: `partials` by stripe, unused where the plan has no file. If it
// throws, unfinished ones are removed. Returns the checksums by expert.
std::vector<std::uint64_t> write_records(Workshop& work, const LayerPlan& plan,
                                         const std::vector<SourceExpert>& sources,
                                         const std::vector<std::filesystem::path>& partials);

// Checksums of runs as they are on the disk, in order.
std::vector<std::uint64_t> hash_runs(Workshop& work, const std::vector<FileRun>& runs);

}  // namespace perigee
