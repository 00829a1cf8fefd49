#include "compute/activation_memory.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "base/huge_pages.h"
#include "base/log.h"

namespace perigee {

// First fit over blocks in order of address, neighbours joined when they become free. A step has some dozen
// large tensors at a time, so there is little to search.
class ActivationReserve::Stretch {
 public:
  Stretch(std::uint64_t bytes, bool lock) : bytes_(rounded(bytes)) {
    if (bytes_ == 0) return;
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      log_warning("no {} bytes are kept for activations: {}", bytes_, std::strerror(errno));
      bytes_ = 0;
      return;
    }
    memory_ = static_cast<std::byte*>(memory);
    prefer_huge_pages(memory_, bytes_);
    if (lock && ::mlock(memory_, bytes_) != 0) {
      log_warning("the memory for activations may be swapped: {} (ulimit -l)", std::strerror(errno));
    }
    for (std::size_t at = 0; at < bytes_; at += kPage) memory_[at] = std::byte{0};
    free_[0] = bytes_;
    ASAN_POISON_MEMORY_REGION(memory_, bytes_);
  }
  ~Stretch() {
    if (memory_ == nullptr) return;
    ASAN_UNPOISON_MEMORY_REGION(memory_, bytes_);
    ::munmap(memory_, bytes_);
  }
  Stretch(const Stretch&) = delete;
  Stretch& operator=(const Stretch&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t used() const { return used_; }

  bool holds(const void* memory) const {
    const auto* at = static_cast<const std::byte*>(memory);
    return memory_ != nullptr && at >= memory_ && at < memory_ + bytes_;
  }

  // nullptr if there is no room.
  void* take(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    const auto fit = std::ranges::find_if(free_, [size](const auto& block) { return block.second >= size; });
    if (fit == free_.end()) return nullptr;
    const auto [at, length] = *fit;
    if (length > size) free_.emplace(at + size, length - size);
    auto block = free_.extract(fit);
    block.mapped() = size;
    taken_.insert(std::move(block));
    used_ += size;
    ASAN_UNPOISON_MEMORY_REGION(memory_ + at, bytes);
    return memory_ + at;
  }

  // Allocates nothing: the block moves back from taken_.
  void give_back(void* memory) noexcept {
    auto block = taken_.extract(static_cast<std::size_t>(static_cast<std::byte*>(memory) - memory_));
    ASAN_POISON_MEMORY_REGION(memory, block.mapped());
    used_ -= block.mapped();
    auto next = free_.lower_bound(block.key());
    if (next != free_.end() && next->first == block.key() + block.mapped()) {
      block.mapped() += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == block.key()) {
        before->second += block.mapped();
        return;
      }
    }
    free_.insert(std::move(block));
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static std::size_t rounded(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  std::byte* memory_ = nullptr;
  std::size_t bytes_;
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> free_, taken_;  // offset -> bytes
};

namespace {

// Below this the heap keeps freed memory for itself, and is fast.
constexpr std::size_t kLeastLarge = 64 << 10;

struct Stretches {
  std::mutex mutex;
  std::vector<std::shared_ptr<ActivationReserve::Stretch>> all;
};

// Never destroyed: tensors may be among the statics of a program.
Stretches& stretches() {
  static auto* const instance = new Stretches;
  return *instance;
}

}  // namespace

ActivationReserve::ActivationReserve(std::uint64_t bytes, bool lock)
    : stretch_(std::make_shared<Stretch>(bytes, lock)) {
  const std::lock_guard hold(stretches().mutex);
  stretches().all.push_back(stretch_);
}

// A stretch with tensors in it goes with the last of them (release_activation).
ActivationReserve::~ActivationReserve() {
  const std::lock_guard hold(stretches().mutex);
  if (stretch_->used() == 0) std::erase(stretches().all, stretch_);
  stretch_.reset();
}

std::uint64_t ActivationReserve::bytes() const {
  return stretch_->bytes();
}

std::uint64_t ActivationReserve::used() const {
  const std::lock_guard hold(stretches().mutex);
  return stretch_->used();
}

void* allocate_activation(std::size_t bytes) {
  if (bytes >= kLeastLarge) {
    const std::lock_guard hold(stretches().mutex);
    for (const auto& stretch : stretches().all) {
      if (stretch.use_count() == 1) continue;  // its reserve is gone
      if (void* memory = stretch->take(bytes)) return memory;
    }
  }
  return ::operator new (bytes, std::align_val_t{kActivationAlignment});
}

void release_activation(void* memory, std::size_t bytes) noexcept {
  if (bytes >= kLeastLarge) {
    const std::lock_guard hold(stretches().mutex);
    auto& all = stretches().all;
    const auto home =
        std::ranges::find_if(all, [memory](const auto& stretch) { return stretch->holds(memory); });
    if (home != all.end()) {
      (*home)->give_back(memory);
      if ((*home)->used() == 0 && home->use_count() == 1) all.erase(home);
      return;
    }
  }
  ::operator delete (memory, std::align_val_t{kActivationAlignment});
}

}  // namespace perigee
