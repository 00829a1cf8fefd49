// Where the records of a layer go: one file for each folder of the stripe, records page after page, experts
// spread so that every run of neighbouring experts loads the folders in proportion to their weights. Pure
// arithmetic.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "experts/expert_table.h"

namespace perigee {

struct Stripe {
  std::filesystem::path folder;
  double weight = 0;  // share of the records; 0: as fast as its disk reads
};

struct PlannedRecord {
  std::uint32_t stripe = 0;
  std::uint64_t offset = 0;  // in the stripe's file of this layer
  RunLayout layout;          // of the record
};

struct LayerPlan {
  std::vector<PlannedRecord> records;     // by expert
  std::vector<std::uint64_t> file_bytes;  // by stripe; 0: no file
};

// `weights` are positive, one for each folder.
LayerPlan plan_records(const std::vector<RunLayout>& sources, const std::vector<double>& weights);

// "experts-00012.bin"
std::string record_file_name(std::uint64_t layer);

}  // namespace perigee
