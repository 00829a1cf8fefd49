// Input and output of the text commands as bytes: a file or standard input, whole; standard output, in
// pieces. Text is never changed on the way, and a reader that leaves early is no error to talk about.
#pragma once

#include <string>
#include <string_view>

#include "base/cancel.h"

namespace perigee {

inline constexpr const char* kStandardInput = "-";

// All bytes of `file`, or of standard input for "-". On a terminal it says that it waits for text.
std::string read_input(const std::string& file, const CancelToken& cancel);

// Returns when `fd` has something to read or has ended; kInterrupted if cancelled meanwhile.
void wait_for_input(int fd, const CancelToken& cancel);

// What error sentences call it.
std::string input_name(const std::string& file);

// Throws std::system_error for a closed pipe, which ends the program without a word, kIo or kNoSpace else.
void write_output(std::string_view bytes);

// Collects small pieces for write_output. Call flush() at the end: a destructor could not report a failure.
class OutputBuffer {
 public:
  void add(std::string_view bytes) {
    bytes_ += bytes;
    if (bytes_.size() >= kFlushBytes) flush();
  }
  void flush();

 private:
  static constexpr std::size_t kFlushBytes = 1 << 18;
  std::string bytes_;
};

}  // namespace perigee
