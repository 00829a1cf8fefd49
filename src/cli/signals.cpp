#include "cli/signals.h"

#include <signal.h>

#include <atomic>
#include <cerrno>

#include "base/error.h"

namespace perigee {
namespace {

// A signal handler has no argument of ours to reach the token by, so this one object has to be static.
constinit CancelToken g_cancel;
// Of the InterruptScope, for the same reason.
constinit std::atomic<CancelToken*> g_scope{nullptr};

void handle_interrupt(int) {
  static_assert(std::atomic<CancelToken*>::is_always_lock_free, "must be safe in a signal handler");
  if (CancelToken* token = g_scope.load()) token->cancel();
}

void handle_cancel(int number) {
  static_assert(std::atomic<bool>::is_always_lock_free, "cancel() must be safe in a signal handler");
  g_cancel.cancel();
  handle_interrupt(number);
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

InterruptScope::InterruptScope(CancelToken& token) {
  g_scope.store(&token);
  struct sigaction action {};
  action.sa_handler = handle_interrupt;
  action.sa_flags = SA_RESTART;
  if (::sigaction(SIGINT, &action, &previous_) != 0) fail_errno(errno, "cannot set a signal handler");
}

InterruptScope::~InterruptScope() {
  ::sigaction(SIGINT, &previous_, nullptr);
  g_scope.store(nullptr);
}

}  // namespace perigee
