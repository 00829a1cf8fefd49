// Which tensors a synthetic checkpoint has and where: the released layout, rearranged as the options ask.
#pragma once

#include <vector>

#include "checkpoint/index.h"
#include "checkpoint/schema.h"
#include "synth/synth.h"

namespace perigee::synth {

// All shards, offsets assigned. kUsage if an option does not fit the sizes.
std::vector<SchemaShard> shard_layout(const K3Config& config, const SynthOptions& options);

// Keeps the shards that the options choose; all if they choose none. kUsage naming a shard that does not
// exist.
std::vector<SchemaShard> chosen_shards(const std::vector<SchemaShard>& all, const SynthOptions& options);

CheckpointIndex index_of(const std::vector<SchemaShard>& shards);

}  // namespace perigee::synth
