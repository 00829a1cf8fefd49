// Writes the trunk file of one source shard: copies what stays, rounds the planes that are to be smaller, and
// measures what the rounding did.
#pragma once

#include <filesystem>
#include <map>

#include "pack/trunk_plan.h"
#include "pack/workshop.h"
#include "verify/verify.h"

namespace perigee {

// What happened to the matrices of a plane.
struct PlaneSums {
  std::uint64_t tensors = 0;       // of the plane
  std::uint64_t rounded = 0;       // of them
  std::uint64_t source_bytes = 0;  // of all of them
  std::uint64_t stored_bytes = 0;
  ErrorSums error;  // of the rounded ones
  void add(const PlaneSums& other);
};
using PlaneTable = std::map<Plane, PlaneSums>;

// Tensors and bytes by plane, from the plan alone.
PlaneTable planned_planes(const TrunkPlan& plan);

struct TrunkResult {
  std::uint64_t xxh3 = 0;  // of the file as it was written
  PlaneTable planes;
};

// Writes `partial`, synced to disk, or removes it and throws: kUnsupported naming a tensor with a value that
// is not finite, if it is to be rounded. `source` is the opened shard and `data_offset` where its data begin.
TrunkResult write_trunk(Workshop& work, const TrunkPlan& plan, const File& source, std::uint64_t data_offset,
                        const std::filesystem::path& partial);

}  // namespace perigee
