// AsyncIo that is as unpleasant as disks are: reads come back late and out of order, some fail, some are cut
// short. What happens to a read depends on where it begins, so that a test says which expert is hurt.
// For tests only.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/async_io.h"

namespace perigee::test {

class SlowIo final : public AsyncIo {
 public:
  struct Plan {
    unsigned most_microseconds = 0;  // of delay, evenly drawn
    unsigned gather = 0;  // no read comes back before so many were under way at once (ten seconds at most)
    // What becomes of a read of this file offset, the n-th time from 0: an errno value to fail with, 0 for
    // none, kCutShort for fewer bytes than asked for, kDamaged for a wrong byte. May be empty.
    std::function<int(std::uint64_t offset, unsigned n)> fate = {};
    // What a whole drive does: an errno value to fail with, 0 for none, kHeld to answer after release().
    std::function<int(dev_t device)> drive = {};
  };
  static constexpr int kCutShort = -1;
  static constexpr int kDamaged = -2;
  static constexpr int kHeld = -3;

  explicit SlowIo(Plan plan) : plan_(std::move(plan)), inner_(make_async_io(IoBackend::kThreads, 4)) {}

  void read(int fd, std::span<std::byte> buffer, std::uint64_t offset, Done done) override {
    unsigned delay = 0;
    int fate = 0;
    int drive = 0;
    if (plan_.drive) {
      struct stat info {};
      ::fstat(fd, &info);
      drive = plan_.drive(info.st_dev);
    }
    if (drive == kHeld) {
      const std::scoped_lock lock(mutex_);
      held_.push_back([this, fd, buffer, offset, done = std::move(done)]() mutable {
        inner_->read(fd, buffer, offset, std::move(done));
      });
      return;
    }
    {
      const std::scoped_lock lock(mutex_);
      offsets_.push_back(offset);
      if (plan_.most_microseconds > 0) delay = static_cast<unsigned>(random_() % plan_.most_microseconds);
      const auto n = static_cast<unsigned>(std::count(offsets_.begin(), offsets_.end(), offset)) - 1;
      if (plan_.fate) fate = plan_.fate(offset, n);
      if (drive != 0) fate = drive;
      most_at_once_ = std::max(most_at_once_, ++under_way_);
    }
    gathered_.notify_all();
    inner_->read(fd, buffer, offset, [this, delay, fate, buffer, done = std::move(done)](IoResult result) {
      if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      if (fate > 0) result = {fate, 0};
      if (fate == kCutShort) result.bytes /= 2;
      if (fate == kDamaged) buffer[buffer.size() / 2] ^= std::byte{1};
      {
        std::unique_lock lock(mutex_);
        gathered_.wait_for(lock, std::chrono::seconds(10), [this] { return most_at_once_ >= plan_.gather; });
        --under_way_;
      }
      done(result);
    });
  }
  void write(int, std::span<const std::byte>, std::uint64_t, Done done) override { done({0, 0}); }
  void register_memory(std::span<std::byte>) override {}
  const char* name() const override { return "slow"; }

  // Lets the reads that are held now be done.
  void release() {
    std::vector<std::function<void()>> held;
    {
      const std::scoped_lock lock(mutex_);
      held.swap(held_);
    }
    for (const auto& read : held) read();
  }

  std::vector<std::uint64_t> offsets() const {
    const std::scoped_lock lock(mutex_);
    return offsets_;
  }
  unsigned most_at_once() const {
    const std::scoped_lock lock(mutex_);
    return most_at_once_;
  }

 private:
  Plan plan_;
  mutable std::mutex mutex_;
  std::condition_variable gathered_;
  std::mt19937 random_{7};
  std::vector<std::uint64_t> offsets_;
  std::vector<std::function<void()>> held_;
  unsigned under_way_ = 0, most_at_once_ = 0;
  // Destroyed first, while reads that come back may still ask for others: reset() would make it null before.
  std::unique_ptr<AsyncIo> inner_;
};

}  // namespace perigee::test
