// The table of experts of a checkpoint, and what `perigee pack` needs to know beyond it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "experts/expert_table.h"

namespace perigee {

struct CheckpointExperts {
  ExpertTable table;                         // files are the shards, as the index counts them
  std::vector<std::filesystem::path> files;  // all shards
};

using ReadShardHeader = std::function<ShardHeader(const std::string& file_name)>;

// Errors as open_checkpoint_experts(). Asks for one header at a time and keeps none.
CheckpointExperts find_checkpoint_experts(const std::filesystem::path& checkpoint, const K3Config& config,
                                          const CheckpointIndex& index, const ReadShardHeader& read_header);

}  // namespace perigee
