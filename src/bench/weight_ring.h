// Memory full of random weights that are valid in their format and of a size that a trained model's have,
// handed out as matrices in turn: when the end is reached it begins again. So a model of any size runs in
// little memory, and as long as the ring is much larger than the caches every matrix comes from memory, as
// in the real model. What the model says is noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/matrix.h"
#include "compute/tensor.h"
#include "model/tensor_reader.h"

namespace perigee {

class WeightRing {
 public:
  // About `bytes` of kBf16, kMxfp4 or kNvfp4 weights.
  WeightRing(WeightFormat format, std::uint64_t bytes);

  // The next matrix. kUsage with the bytes it takes if the whole ring is too small for it.
  Matrix take(std::size_t rows, std::size_t columns);

  // As many matrices as the ring holds side by side, at least one.
  std::vector<Matrix> take_all(std::size_t rows, std::size_t columns);

  // Values and scales, in one piece.
  std::span<const std::byte> memory() const { return memory_; }

 private:
  WeightFormat format_;
  WeightArena arena_;  // as the loader allocates, so that pages are of the same kind
  std::span<std::byte> memory_;
  const std::byte* scales_ = nullptr;
  std::size_t elements_ = 0;
  std::size_t next_ = 0;
};

// Activations as they are between layers: normal, mean 0, deviation 1, rounded to bf16.
Tensor random_rows(std::size_t rows, std::size_t width, std::uint64_t seed);

}  // namespace perigee
