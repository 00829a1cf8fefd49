// What a sequence carries from step to step: per KDA layer the last inputs of three convolutions and the
// recurrent state, per MLA layer the latent cache. It cannot be rolled back: it belongs to exactly one prefix
// of ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "checkpoint/config.h"
#include "compute/ops.h"
#include "compute/tensor.h"

namespace perigee {

struct KdaState {
  Tensor conv_q, conv_k, conv_v;  // [taps - 1, heads * head_dim], oldest row first
  Tensor s;                       // [heads * head_dim, head_dim], [head, key, value]
};

// Grows by whole pieces; rows beyond the sequence's position are unspecified.
class MlaCache {
 public:
  explicit MlaCache(std::size_t width) : width_(width) {}  // latent_dim + rope_dim
  float* row(std::size_t position);                        // grows when needed
  MlaCacheView view(std::size_t positions) const;
  std::size_t width() const { return width_; }

 private:
  std::size_t width_;
  std::vector<std::unique_ptr<float[]>> pieces_;
  std::vector<const float*> views_;
};

struct SequenceState {
  explicit SequenceState(const K3Config& config);  // of the empty sequence
  std::size_t position = 0;                        // tokens seen
  std::vector<std::variant<KdaState, MlaCache>> layers;
};

}  // namespace perigee
