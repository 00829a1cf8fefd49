// Ends the process when one input makes a parser hold more than 2 x input + 64 MB at once: a small hostile
// file must not cost much memory. Counts through the sanitizer's allocator, so only for builds with one.
#pragma once

#include <cstddef>

namespace perigee::fuzz {

class AllocationGuard {
 public:
  explicit AllocationGuard(std::size_t input_bytes);
  ~AllocationGuard();
  AllocationGuard(const AllocationGuard&) = delete;
  AllocationGuard& operator=(const AllocationGuard&) = delete;
};

}  // namespace perigee::fuzz
