#include "base/error.h"

#include <cerrno>
#include <system_error>

namespace perigee {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kExists:
      return "exists";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kNoSpace:
      return "no_space";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kLossy:
      return "lossy";
    case ErrorCode::kMismatch:
      return "mismatch";
    case ErrorCode::kInterrupted:
      return "interrupted";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

int exit_status(ErrorCode code) {
  if (code == ErrorCode::kUsage) return 2;
  if (code == ErrorCode::kInterrupted) return 130;
  return 1;
}

void fail_errno(int error_number, const std::string& doing) {
  const std::string reason = std::generic_category().message(error_number);
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      fail(ErrorCode::kNoSpace, "{}: {}; free some space and run the same command again, it resumes", doing,
           reason);
    case ENOENT:
      fail(ErrorCode::kNotFound, "{}: {}", doing, reason);
    case EEXIST:
      fail(ErrorCode::kExists, "{}: {}", doing, reason);
    default:
      fail(ErrorCode::kIo, "{}: {}", doing, reason);
  }
}

}  // namespace perigee
