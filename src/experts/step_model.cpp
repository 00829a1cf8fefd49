#include "experts/step_model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace perigee {
namespace {

double rate_at(std::span<const DriveModel::Point> points, unsigned depth) {
  const auto above =
      std::ranges::find_if(points, [depth](const auto& point) { return point.depth >= depth; });
  if (above == points.end()) return points.back().bytes_per_second;
  if (above == points.begin() || above->depth == depth) return above->bytes_per_second;
  const auto below = std::prev(above);
  const double part = static_cast<double>(depth - below->depth) / (above->depth - below->depth);
  return below->bytes_per_second + part * (above->bytes_per_second - below->bytes_per_second);
}

}  // namespace

DriveModel DriveModel::through(std::span<const Point> points, unsigned most, double drives) {
  if (points.empty() || most == 0) fail(ErrorCode::kInternal, "a drive without any rate");
  DriveModel model;
  model.drives = drives;
  for (unsigned depth = 1; depth <= most; ++depth) model.bytes_per_second.push_back(rate_at(points, depth));
  return model;
}

double batch_seconds(const DriveModel& drive, double records, double record_bytes) {
  // While `left` records are missing, as many are under way as the drive takes; one of them comes.
  double seconds = 0;
  for (double left = records / drive.drives; left > 0; left -= 1) {
    const auto under_way = std::min(static_cast<std::size_t>(std::ceil(left)), drive.bytes_per_second.size());
    seconds += std::min(left, 1.0) * record_bytes / drive.bytes_per_second[under_way - 1];
  }
  return seconds;
}

double layer_seconds(const DriveModel& drive, double record_bytes, const LayerModel& layer) {
  const double multiplying = layer.experts * layer.expert_seconds;
  const double last = std::min(layer.reads, 1.0) * layer.expert_seconds;
  return std::max(multiplying, batch_seconds(drive, layer.reads, record_bytes) + last);
}

double mean_layer_seconds(const DriveModel& drive, double record_bytes, const LayerModel& layer) {
  const double missing = layer.experts > 0 ? std::min(1.0, layer.reads / layer.experts) : 0;
  if (missing == 0 || missing == 1) return layer_seconds(drive, record_bytes, layer);
  const double count = std::round(layer.experts);
  double seconds = 0;
  for (double reads = 0; reads <= count; ++reads) {  // weighted by the binomial distribution
    const double ways = std::lgamma(count + 1) - std::lgamma(reads + 1) - std::lgamma(count - reads + 1);
    const double weight = std::exp(ways + reads * std::log(missing) + (count - reads) * std::log1p(-missing));
    if (weight < 1e-9) continue;
    seconds += weight * layer_seconds(drive, record_bytes, {reads, layer.experts, layer.expert_seconds});
  }
  return seconds;
}

double distinct_experts(double experts, double top_k, double tokens) {
  return experts * (1 - std::pow(1 - top_k / experts, tokens));
}

}  // namespace perigee
