#include "bench/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/error.h"

extern char** environ;

namespace perigee {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

pid_t spawn_child(const std::vector<std::string>& command, const ChildStreams& streams) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const auto set = [&](int stream, int descriptor, int flags) {
    if (descriptor >= 0) {
      posix_spawn_file_actions_adddup2(&actions, descriptor, stream);
    } else {
      posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", flags, 0);
    }
  };
  set(STDIN_FILENO, streams.input, O_RDONLY);
  set(STDOUT_FILENO, streams.output, O_WRONLY);
  if (streams.messages >= 0) set(STDERR_FILENO, streams.messages, O_WRONLY);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail_errno(error, fmt::format("cannot start {}", command.front()));
  return pid;
}

ChildCost run_child(const std::vector<std::string>& command, int also_accepted) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t pid = spawn_child(command);
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, 0, &usage) < 0) {
    if (errno != EINTR) fail_errno(errno, fmt::format("cannot wait for {}", command.front()));
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != also_accepted)) {
    fail(ErrorCode::kInternal, "{} ended with status {}; run it by hand to see why", fmt::join(command, " "),
         status);
  }
  return {wall.count(), seconds(usage.ru_utime) + seconds(usage.ru_stime),
          static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

}  // namespace perigee
