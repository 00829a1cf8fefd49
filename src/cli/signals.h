// Turns SIGINT and SIGTERM into cancellation. Not a general signal facility: a program calls this once, in
// main().
#pragma once

#include "base/cancel.h"

namespace perigee {

// The first SIGINT or SIGTERM sets the returned token; a second one of the same kind kills the process at
// once. A reader that goes away (SIGPIPE) no longer kills it: the failing write is reported like any other.
CancelToken& cancel_on_signals();

}  // namespace perigee
