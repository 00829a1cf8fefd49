// Runs one shard's plan: reads, computes on all workers, writes the output in order under a temporary name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/async_io.h"
#include "base/cancel.h"
#include "base/ordered_hasher.h"
#include "base/pipeline.h"
#include "base/progress.h"
#include "convert/module_record.h"
#include "convert/shard_plan.h"
#include "convert/unit_compute.h"

namespace perigee {

struct ShardResult {
  StreamDigest digest;  // of the whole file as written; with SHA-256 only where asked for
  std::vector<ModuleRecord> modules;
};

// Writes `partial`, synced to disk, or removes it and throws. `progress` counts source bytes.
ShardResult convert_shard(AsyncIo& io, Pipeline& pipeline, const ShardPlan& plan,
                          const ComputeOptions& options, const std::filesystem::path& partial,
                          bool with_sha256, Progress& progress);

}  // namespace perigee
