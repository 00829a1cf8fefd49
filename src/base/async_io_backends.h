// The two backends of async_io.h; only base/ includes this.
#pragma once

#include <memory>
#include <string>

#include "base/async_io.h"

namespace perigee {

// nullptr and a reason if the kernel refuses a ring or a probe transfer fails.
std::unique_ptr<AsyncIo> try_make_uring_io(unsigned depth, std::string& reason);

std::unique_ptr<AsyncIo> make_thread_io(unsigned depth);

}  // namespace perigee
