#include "base/async_io.h"

#include "base/async_io_backends.h"
#include "base/error.h"
#include "base/log.h"

namespace perigee {

std::unique_ptr<AsyncIo> make_async_io(IoBackend backend, unsigned depth) {
  if (backend != IoBackend::kThreads) {
    std::string reason;
    if (std::unique_ptr<AsyncIo> io = try_make_uring_io(depth, reason)) return io;
    if (backend == IoBackend::kUring) {
      fail(ErrorCode::kUnsupported, "io_uring does not work here ({}); use --io threads", reason);
    }
    log_debug("io_uring does not work here ({}); using pread threads", reason);
  }
  return make_thread_io(depth);
}

}  // namespace perigee
