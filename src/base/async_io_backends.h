// The two backends of async_io.h; only base/ includes this.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "base/async_io.h"

namespace perigee {

// A direct read that met the end of the file between two blocks cannot be continued from there: the kernel
// then says EINVAL instead of "no more bytes".
inline bool is_end_of_direct_file(int error_number, bool is_write, std::uint64_t done_bytes) {
  return error_number == EINVAL && !is_write && done_bytes > 0;
}

// nullptr and a reason if the kernel refuses a ring or a probe transfer fails.
std::unique_ptr<AsyncIo> try_make_uring_io(unsigned depth, std::string& reason);

std::unique_ptr<AsyncIo> make_thread_io(unsigned depth);

}  // namespace perigee
