// Runs another program and says what it cost, by the kernel's own accounting of the finished process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perigee {

struct ChildCost {
  double wall_seconds = 0;
  double cpu_seconds = 0;            // user and system, all threads
  std::uint64_t peak_rss_bytes = 0;  // largest resident set
};

// Waits for the program; its standard output is thrown away. kIo naming the command if it cannot be started,
// kInternal if it ends with a status other than 0 or `also_accepted`.
ChildCost run_child(const std::vector<std::string>& command, int also_accepted = 0);

}  // namespace perigee
