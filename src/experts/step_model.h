// How long a step that streams experts takes, by arithmetic: what `perigee inspect --plan` foretells and what
// `perigee bench stream` holds against the clock. A layer asks for its experts at once; a drive has a few
// reads under way and fewer at the end of a layer, where it is slower; multiplication goes on meanwhile.
// Reading ahead is left out, so that it can only make things better.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace perigee {

struct DriveModel {
  // Bytes per second of one drive with 1, 2, 3, … reads under way; not empty.
  std::vector<double> bytes_per_second;
  double drives = 1;  // that share the records evenly

  // Of what was measured at some depths: between two of them along a line, beyond the last as there.
  struct Point {
    unsigned depth = 1;
    double bytes_per_second = 0;
  };
  static DriveModel through(std::span<const Point> points, unsigned most, double drives = 1);
};

// From asking for so many records of this size at once to having the last; a fraction of a record is what an
// average of layers has.
double batch_seconds(const DriveModel& drive, double records, double record_bytes);

struct LayerModel {
  double reads = 0;           // experts that are not in memory
  double experts = 0;         // all that the layer multiplies with
  double expert_seconds = 0;  // of multiplying with one of them
};

// The experts of one layer: reading and multiplying overlap, but the last to come is multiplied alone.
double layer_seconds(const DriveModel& drive, double record_bytes, const LayerModel& layer);

// The same on average, where each expert is missing as likely as any other and `reads` is the mean: layers
// that miss many wait, and those that miss few do not make up for it.
double mean_layer_seconds(const DriveModel& drive, double record_bytes, const LayerModel& layer);

// How many of a layer's experts so many tokens use, if each token draws `top_k` of them evenly. Real routers
// favour some, so this is an upper bound.
double distinct_experts(double experts, double top_k, double tokens);

}  // namespace perigee
