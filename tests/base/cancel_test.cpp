#include "base/cancel.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "support/expect_error.h"

namespace perigee {
namespace {

CancelToken* g_token = nullptr;

TEST(CancelToken, LetsWorkGoOnUntilItIsCancelled) {
  CancelToken token;
  EXPECT_FALSE(token.cancelled());
  EXPECT_NO_THROW(token.check());
  token.cancel();
  EXPECT_TRUE(token.cancelled());
  EXPECT_ERROR(token.check(), ErrorCode::kInterrupted, "interrupted");
}

TEST(CancelToken, StaysCancelled) {
  CancelToken token;
  token.cancel();
  token.cancel();
  EXPECT_TRUE(token.cancelled());
  EXPECT_THROW(token.check(), Error);
  EXPECT_THROW(token.check(), Error);
}

TEST(CancelToken, ReachesAnotherThread) {
  CancelToken token;
  std::thread worker([&token] {
    while (!token.cancelled()) std::this_thread::yield();
  });
  token.cancel();
  worker.join();
  EXPECT_TRUE(token.cancelled());
}

TEST(CancelToken, MayBeCancelledInASignalHandler) {
  CancelToken token;
  g_token = &token;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { g_token->cancel(); };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  ::raise(SIGUSR1);
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  EXPECT_TRUE(token.cancelled());
}

}  // namespace
}  // namespace perigee
