// The table of experts of a checkpoint, and what `perigee pack` needs to know beyond it.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/index.h"
#include "experts/expert_table.h"

namespace perigee {

struct CheckpointExperts {
  ExpertTable table;                         // files are the shards, as the index counts them
  std::vector<std::filesystem::path> files;  // all shards
};

// Errors as open_checkpoint_experts(). Reads one header at a time and keeps none.
CheckpointExperts find_checkpoint_experts(const std::filesystem::path& checkpoint, const K3Config& config,
                                          const CheckpointIndex& index);

}  // namespace perigee
