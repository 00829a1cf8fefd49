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
  // number; floats otherwise. Tokens are shared out over the pool.
  PackedRows(const CpuKernels& kernels, WeightFormat weights, ConstRows x, bool pairs, ThreadPool& pool);

  Packing packing() const { return packing_; }
  const std::byte* data() const { return bytes_.get(); }
  std::size_t stride() const { return stride_; }  // bytes from token to token

 private:
  bool pack_pairs(const CpuKernels& kernels, WeightFormat weights, ConstRows x, ThreadPool& pool);
  void reserve(std::size_t tokens, std::size_t columns, Packing packing);

  struct Free {
    std::size_t size;
    void operator()(std::byte* bytes) const { release_activation(bytes, size); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t stride_ = 0;
  Packing packing_ = Packing::kFloats;
};

}  // namespace perigee
