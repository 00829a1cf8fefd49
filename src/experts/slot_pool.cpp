#include "experts/slot_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/huge_pages.h"
#include "base/log.h"

namespace perigee {

std::uint64_t slot_bytes_for(std::uint64_t largest_run) {
  return align_up(largest_run + kDirectAlignment - 1, kDirectAlignment);
}

SlotPool::SlotPool(std::size_t slots, std::uint64_t largest_run, bool lock)
    : slots_(slots), slot_bytes_(slot_bytes_for(largest_run)) {
  const std::size_t bytes = slots_ * slot_bytes_;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(ErrorCode::kNoSpace, "no memory for {} experts of {} bytes, {:.1f} GB ({}); give less with --ram",
         slots_, slot_bytes_, static_cast<double>(bytes) / 1e9, std::strerror(errno));
  }
  memory_ = static_cast<std::byte*>(memory);
  prefer_huge_pages(memory, bytes);
  if (lock && ::mlock(memory, bytes) != 0) {
    log_warning("the memory for experts may be swapped: {} (ulimit -l)", std::strerror(errno));
  }
  free_.reserve(slots_);
  for (std::size_t i = slots_; i-- > 0;) free_.push_back(i);
}

SlotPool::~SlotPool() {
  ::munmap(memory_, slots_ * slot_bytes_);
}

std::size_t SlotPool::take() {
  const std::size_t index = free_.back();
  free_.pop_back();
  return index;
}

}  // namespace perigee
