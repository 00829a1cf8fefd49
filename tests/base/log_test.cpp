#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace perigee {
namespace {

// What `action` writes to standard error while `level` is the least level that is printed.
template <typename Action>
std::string printed_at(LogLevel level, Action action) {
  set_log_level(level);
  ::testing::internal::CaptureStderr();
  action();
  set_log_level(LogLevel::kInfo);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, PutsTheLevelBeforeTheMessage) {
  EXPECT_EQ(printed_at(LogLevel::kInfo, [] { log_warning("{} shards of {}", 3, 96); }),
            "warning: 3 shards of 96\n");
}

TEST(Log, PrintsFromItsLevelUpwards) {
  const auto talk = [] {
    log_debug("d");
    log_info("i");
    log_warning("w");
    log_message(LogLevel::kError, "e");
  };
  EXPECT_EQ(printed_at(LogLevel::kDebug, talk), "debug: d\ninfo: i\nwarning: w\nerror: e\n");
  EXPECT_EQ(printed_at(LogLevel::kInfo, talk), "info: i\nwarning: w\nerror: e\n");
  EXPECT_EQ(printed_at(LogLevel::kWarning, talk), "warning: w\nerror: e\n");
  EXPECT_EQ(printed_at(LogLevel::kError, talk), "error: e\n");
  EXPECT_EQ(printed_at(LogLevel::kOff, talk), "");
}

TEST(Log, TakesAMessageForTextAndNotForAFormat) {
  EXPECT_EQ(printed_at(LogLevel::kInfo, [] { log_message(LogLevel::kInfo, "{} {0:x} %s"); }),
            "info: {} {0:x} %s\n");
}

}  // namespace
}  // namespace perigee
