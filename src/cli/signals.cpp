#include "cli/signals.h"

#include <signal.h>

#include <atomic>
#include <cerrno>

#include "base/error.h"

namespace perigee {
namespace {

// A signal handler has no argument of ours to reach the token by, so this one object has to be static.
constinit CancelToken g_cancel;

void handle_cancel(int) {
  static_assert(std::atomic<bool>::is_always_lock_free, "cancel() must be safe in a signal handler");
  g_cancel.cancel();
}

void set_handler(int signal_number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (::sigaction(signal_number, &action, nullptr) != 0) fail_errno(errno, "cannot set a signal handler");
}

}  // namespace

CancelToken& cancel_on_signals() {
  // SA_RESETHAND restores the default action, so the second signal kills; SA_RESTART spares libraries EINTR.
  set_handler(SIGINT, handle_cancel, SA_RESETHAND | SA_RESTART);
  set_handler(SIGTERM, handle_cancel, SA_RESETHAND | SA_RESTART);
  set_handler(SIGPIPE, SIG_IGN, 0);
  return g_cancel;
}

}  // namespace perigee
