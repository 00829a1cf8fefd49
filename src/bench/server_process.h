// A server of our own as a child process on a free port of loopback, for measurements from outside. Its
// messages are read to its end, so that it never waits for a reader.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/cancel.h"

namespace perigee {

class ServerProcess {
 public:
  // Waits until the program says where it listens. kIo with its last messages if it ends before.
  ServerProcess(const std::vector<std::string>& command, const CancelToken& cancel);
  ~ServerProcess();  // asks it to stop, and after ten seconds does not ask any more
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& url() const { return url_; }
  pid_t pid() const { return pid_; }

 private:
  void read_messages();
  bool ended();  // and waited for
  void stop();
  std::string last_messages();

  pid_t pid_ = -1;
  int messages_ = -1;
  std::string url_;
  std::mutex mutex_;
  std::deque<std::string> lines_;  // the last ones
  std::string said_url_;
  std::thread reader_;
};

// Memory that a process has in use; 0 if it is gone.
std::uint64_t resident_bytes(pid_t pid);

}  // namespace perigee
