// The one error type of the program. An error carries a code, which becomes the exit status (and later an
// HTTP status), and one sentence that names the file, tensor, row or option and says what to do about it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace perigee {

enum class ErrorCode {
  kUsage,        // the command line or a request asks for something that makes no sense
  kNotFound,     // a file or tensor that must exist does not
  kExists,       // something is there that must not be overwritten
  kIo,           // the operating system refused a read, write, sync or rename
  kNoSpace,      // the disk or quota is full
  kCorrupt,      // input bytes violate their format
  kUnsupported,  // input is well formed but of a kind this program does not handle
  kLossy,        // the operation would change a value and the policy forbids it
  kMismatch,     // a proof failed: what was read back is not what it must be
  kInterrupted,  // SIGINT or SIGTERM; the work can be resumed
  kInternal,     // a bug in this program
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Short machine-readable name, e.g. "corrupt"; used in --json output.
const char* error_code_name(ErrorCode code);

// Process exit status: 2 for kUsage, 130 for kInterrupted, 1 for everything else.
// (0 is success without loss, 3 success with loss by explicit policy; both are decided by the command.)
int exit_status(ErrorCode code);

// throw Error(code, formatted sentence)
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws kNoSpace for ENOSPC/EDQUOT, kNotFound for ENOENT, kExists for EEXIST, else kIo.
// The sentence reads "<doing>: <strerror>", plus a hint for a full disk.
[[noreturn]] void fail_errno(int error_number, const std::string& doing);

}  // namespace perigee
