// Turns SIGINT and SIGTERM into cancellation. Not a general signal facility: a program calls this once, in
// main().
#pragma once

#include <signal.h>

#include "base/cancel.h"

namespace perigee {

// The first SIGINT or SIGTERM sets the returned token; a second one of the same kind kills the process at
// once. A reader that goes away (SIGPIPE) no longer kills it: the failing write is reported like any other.
CancelToken& cancel_on_signals();

// While it lives, SIGINT sets `token` instead, every time, and the program goes on; SIGTERM sets both. For
// work that a person may stop without leaving the program. One at a time.
class InterruptScope {
 public:
  explicit InterruptScope(CancelToken& token);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction previous_;
};

}  // namespace perigee
