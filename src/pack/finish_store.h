// The last act of a pack: side files, config.json, report, the trunk's index, and the experts' index at the
// very end. Everything is made from what is on disk and in the journal; running it twice gives the same
// bytes.
#pragma once

#include <vector>

#include "experts/store_format.h"
#include "pack/pack.h"
#include "pack/pack_journal.h"
#include "pack/pack_plan.h"

namespace perigee {

// What is kept of the source before anything else is written, so that it is there when the shards are gone.
void keep_source_index(const PackOptions& options);
inline constexpr const char* kKeptIndexName = "model.safetensors.index.json";  // in STORE/.source/

// `records` are the journal's, one for each of plan.items; `weights` those of the folders.
StoreReport finish_store(const PackOptions& options, const PackPlan& plan,
                         const std::vector<ItemRecord>& records, const std::vector<double>& weights);

}  // namespace perigee
