// Memory that is large and read all over: weights, activations, buffers of the drive.
#pragma once

#include <cstddef>

namespace perigee {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Asks the kernel for huge pages under the memory, before it is touched: fewer faults then, fewer misses of
// the address cache ever after, fewer requests to a drive. Where there are none everything works as well.
void prefer_huge_pages(void* memory, std::size_t bytes);

}  // namespace perigee
