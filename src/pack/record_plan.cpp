#include "pack/record_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "experts/store_format.h"

namespace perigee {

LayerPlan plan_records(const std::vector<RunLayout>& sources, const std::vector<double>& weights) {
  LayerPlan plan;
  plan.file_bytes.assign(weights.size(), 0);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> owed(weights.size(), 0.0);  // records that a folder should have more than it has
  for (const RunLayout& source : sources) {
    for (std::size_t i = 0; i < weights.size(); ++i) owed[i] += weights[i] / total;
    const auto stripe = static_cast<std::uint32_t>(std::max_element(owed.begin(), owed.end()) - owed.begin());
    owed[stripe] -= 1;
    PlannedRecord record;
    record.stripe = stripe;
    record.layout = record_layout(source);
    record.offset = plan.file_bytes[stripe];
    plan.file_bytes[stripe] += record.layout.bytes;
    plan.records.push_back(record);
  }
  return plan;
}

std::string record_file_name(std::uint64_t layer) {
  return fmt::format("experts-{:05}.bin", layer);
}

}  // namespace perigee
