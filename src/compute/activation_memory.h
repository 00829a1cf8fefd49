// Memory for large activations (compute/tensor.h): stretches that are asked for, touched and if wished locked
// when a model is loaded. So what a plan counts for activations is really there before the first token: no
// step fails for want of it, and no page is faulted in while one runs. Small tensors, and what finds no room,
// come from the heap.
//
// One for the process, because a tensor knows nothing of models. Everything here may be called from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace perigee {

// A stretch of this many bytes, for as long as this lives; tensors that lie in it may live longer. Without
// memory for it, it holds nothing, and the heap has to do.
class ActivationReserve {
 public:
  explicit ActivationReserve(std::uint64_t bytes, bool lock = false);
  ~ActivationReserve();
  ActivationReserve(const ActivationReserve&) = delete;
  ActivationReserve& operator=(const ActivationReserve&) = delete;

  std::uint64_t bytes() const;
  std::uint64_t used() const;  // by tensors that live now

  class Stretch;

 private:
  std::shared_ptr<Stretch> stretch_;
};

constexpr std::size_t kActivationAlignment = 64;

// Aligned memory, not filled; std::bad_alloc as operator new. To be released with the same number of bytes.
void* allocate_activation(std::size_t bytes);
void release_activation(void* memory, std::size_t bytes) noexcept;

// What a tensor's values are allocated with.
template <typename T>
struct ActivationAllocator {
  using value_type = T;
  ActivationAllocator() = default;
  template <typename U>
  ActivationAllocator(const ActivationAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_activation(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { release_activation(memory, count * sizeof(T)); }
  bool operator==(const ActivationAllocator&) const { return true; }
};

}  // namespace perigee
