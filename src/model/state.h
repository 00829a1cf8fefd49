// What a sequence carries from step to step: per KDA layer the last inputs of three convolutions and the
// recurrent state, per MLA layer the latent cache. It cannot be rolled back: it belongs to exactly one prefix
// of ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// Grows by whole pieces; rows beyond the sequence's position are unspecified. Values are kept as the
// activations are: bf16 in bf16 mode, which loses nothing, because there they are bf16 numbers.
class MlaCache {
 public:
  explicit MlaCache(std::size_t width) : width_(width) {}  // latent_dim + rope_dim

  // The bytes of `count` rows that lie in one piece, to be written; grows when needed. The first call decides
  // the precision, kInternal if a later one has another.
  std::span<std::byte> rows(std::size_t position, std::size_t count, Precision precision);
  void write(std::size_t position, std::span<const float> values, Precision precision);  // one row

  // What can be read of the first `positions`.
  MlaCacheView view(std::size_t positions) const;
  std::span<const std::byte> rows(std::size_t position, std::size_t count) const;

  std::size_t width() const { return width_; }
  std::optional<Precision> precision() const { return precision_; }  // nothing before the first row
  std::size_t row_bytes() const;                                     // 0 before the first row

 private:
  std::size_t width_;
  std::optional<Precision> precision_;
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
  std::vector<const std::byte*> views_;
};

// Of one value in the latent cache.
std::size_t cache_value_bytes(Precision precision);

struct SequenceState {
  explicit SequenceState(const K3Config& config);  // of the empty sequence
  std::size_t position = 0;                        // tokens seen
  std::vector<std::variant<KdaState, MlaCache>> layers;
};

}  // namespace perigee
