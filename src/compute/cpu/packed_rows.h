// Activations packed for the dot products of one matrix: owns them for the length of a call.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "compute/activation_memory.h"
#include "compute/cpu/cpu_kernels.h"

namespace perigee {

class PackedRows {
 public:
  // Packs bf16 pairs where the kernels have a use for them, `pairs` allows it and every value is a bf16
  // number; under the same conditions of kernels and `pairs` one row as whole numbers beside its floats;
  // floats otherwise. tokens: how many of the rows a task takes. Rows are shared out over the pool.
  PackedRows(const CpuKernels& kernels, WeightFormat weights, ConstRows x, std::size_t tokens, bool pairs,
             ThreadPool& pool);

  Packing packing() const { return packing_; }
  const PackedShape& shape() const { return shape_; }
  const std::byte* row(std::size_t r) const { return bytes_.get() + r * shape_.token_stride; }

 private:
  bool pack_pairs(WeightFormat weights, ConstRows x, ThreadPool& pool);
  void pack_whole(ConstRows x);
  void reserve(ConstRows x, Packing packing);
  std::byte* begin_of(std::size_t r) { return bytes_.get() + r * shape_.token_stride; }

  struct Free {
    std::size_t size;
    void operator()(std::byte* bytes) const { release_activation(bytes, size); }
  };
  const CpuKernels& kernels_;
  bool few_;  // tokens of a task
  std::unique_ptr<std::byte, Free> bytes_;
  PackedShape shape_;
  Packing packing_ = Packing::kFloats;
};

}  // namespace perigee
