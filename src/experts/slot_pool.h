// Memory for experts from a disk: equal slots in one stretch, asked for once, in huge pages where the kernel
// has them. A slot is what a direct read needs: aligned, and long enough for the whole pages around a run
// that begins and ends anywhere. Deliberately does not know what lies in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perigee {

// Bytes of a slot for runs of up to this many bytes at any offset.
std::uint64_t slot_bytes_for(std::uint64_t largest_run);

class SlotPool {
 public:
  // kNoSpace naming the bytes if the machine does not give them. `lock`: keep it from being swapped; where
  // that is not allowed a warning says so.
  SlotPool(std::size_t slots, std::uint64_t largest_run, bool lock);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  std::size_t slots() const { return slots_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }
  std::span<std::byte> memory() const { return {memory_, slots_ * slot_bytes_}; }
  std::byte* slot(std::size_t index) const { return memory_ + index * slot_bytes_; }

  bool has_free() const { return !free_.empty(); }
  std::size_t take();  // only if there is a free one
  void give_back(std::size_t index) { free_.push_back(index); }

 private:
  std::size_t slots_;
  std::uint64_t slot_bytes_;
  std::byte* memory_ = nullptr;
  std::vector<std::size_t> free_;
};

}  // namespace perigee
