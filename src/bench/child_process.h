// Starts other programs, and says what one cost, by the kernel's own accounting of the finished process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace perigee {

// Descriptors that become a child's standard streams; it inherits no other. -1: /dev/null for input and
// output, and for messages wherever ours go.
struct ChildStreams {
  int input = -1;
  int output = -1;
  int messages = -1;
};

// The process, which the caller must wait for. kIo naming the program if it cannot be started.
pid_t spawn_child(const std::vector<std::string>& command, const ChildStreams& streams = {});

struct ChildCost {
  double wall_seconds = 0;
  double cpu_seconds = 0;            // user and system, all threads
  std::uint64_t peak_rss_bytes = 0;  // largest resident set
};

// Waits for the program; its standard output is thrown away. kIo naming the command if it cannot be started,
// kInternal if it ends with a status other than 0 or `also_accepted`.
ChildCost run_child(const std::vector<std::string>& command, int also_accepted = 0);

}  // namespace perigee
