// A flag that long work looks at between blocks. SIGINT sets it (cli/); the work stops within a second,
// leaves nothing half written and can be resumed.
#pragma once

#include <atomic>

#include "base/error.h"

namespace perigee {

class CancelToken {
 public:
  // Safe to call from a signal handler.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }
  void check() const {
    if (cancelled()) fail(ErrorCode::kInterrupted, "interrupted");
  }

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace perigee
