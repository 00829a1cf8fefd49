#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "support/expect_error.h"

namespace perigee {
namespace {

struct Expected {
  ErrorCode code;
  const char* name;
  int status;
};

const Expected kAllCodes[] = {
    {ErrorCode::kUsage, "usage", 2},
    {ErrorCode::kNotFound, "not_found", 1},
    {ErrorCode::kExists, "exists", 1},
    {ErrorCode::kIo, "io", 1},
    {ErrorCode::kNoSpace, "no_space", 1},
    {ErrorCode::kCorrupt, "corrupt", 1},
    {ErrorCode::kUnsupported, "unsupported", 1},
    {ErrorCode::kLossy, "lossy", 1},
    {ErrorCode::kMismatch, "mismatch", 1},
    {ErrorCode::kInterrupted, "interrupted", 130},
    {ErrorCode::kInternal, "internal", 1},
};

TEST(ErrorCodes, HaveTheNamesThatJsonReportsPromise) {
  for (const Expected& expected : kAllCodes) EXPECT_STREQ(error_code_name(expected.code), expected.name);
}

TEST(ErrorCodes, BecomeExitStatuses) {
  for (const Expected& expected : kAllCodes) {
    EXPECT_EQ(exit_status(expected.code), expected.status) << expected.name;
  }
}

TEST(Fail, FormatsItsSentence) {
  EXPECT_ERROR(fail(ErrorCode::kCorrupt, "{} has {} rows", "a.safetensors", 7), ErrorCode::kCorrupt,
               "a.safetensors has 7 rows");
}

TEST(Fail, LeavesBracesInArgumentsAlone) {
  EXPECT_ERROR(fail(ErrorCode::kIo, "cannot read {}", "{}.json"), ErrorCode::kIo, "cannot read {}.json");
}

TEST(FailErrno, TellsAFullDiskFromAFullQuotaFromABrokenOne) {
  EXPECT_ERROR(fail_errno(ENOSPC, "cannot write x"), ErrorCode::kNoSpace,
               "cannot write x: No space left on device");
  EXPECT_ERROR(fail_errno(EDQUOT, "cannot write x"), ErrorCode::kNoSpace, "free some space");
  EXPECT_ERROR(fail_errno(EIO, "cannot write x"), ErrorCode::kIo, "cannot write x: Input/output error");
}

TEST(FailErrno, TellsMissingFromExisting) {
  EXPECT_ERROR(fail_errno(ENOENT, "cannot open x"), ErrorCode::kNotFound, "cannot open x: No such file");
  EXPECT_ERROR(fail_errno(EEXIST, "cannot create x"), ErrorCode::kExists, "cannot create x: File exists");
  EXPECT_ERROR(fail_errno(EACCES, "cannot open x"), ErrorCode::kIo, "Permission denied");
}

}  // namespace
}  // namespace perigee
