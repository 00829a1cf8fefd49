// Another program that answers questions: what is sent arrives at its standard input, its standard output is
// read line by line. For measuring beside other people's programs, which are started once and asked often.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace perigee {

class PeerProcess {
 public:
  explicit PeerProcess(std::vector<std::string> command);  // kIo or kNotFound if it cannot be started
  ~PeerProcess();                                          // ends the program
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void send(std::string_view bytes);

  // Waits for the next line, without its end. Both throw kIo, naming the command, if the program has ended.
  std::string read_line();

 private:
  [[noreturn]] void fail_ended() const;

  const std::vector<std::string> command_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string received_;  // not yet returned
};

}  // namespace perigee
