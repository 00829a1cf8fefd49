#include "bench/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "bench/child_process.h"

namespace perigee {
namespace {

constexpr std::size_t kKeptLines = 5;
constexpr std::string_view kListening = "listening on ";
constexpr auto kGlance = std::chrono::milliseconds(20);
constexpr auto kPatience = std::chrono::seconds(10);  // after SIGTERM

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& command, const CancelToken& cancel) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "cannot make a pipe");
  messages_ = ends[0];
  try {
    pid_ = spawn_child(command, {.messages = ends[1]});
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
  reader_ = std::thread([this] { read_messages(); });
  while (url_.empty()) {
    std::this_thread::sleep_for(kGlance);
    const bool over = ended();
    if (over || cancel.cancelled()) {
      if (!over) stop();
      reader_.join();
      ::close(messages_);
      cancel.check();
      fail(ErrorCode::kIo, "{} ended before it listened: {}", fmt::join(command, " "), last_messages());
    }
    const std::scoped_lock lock(mutex_);
    url_ = said_url_;
  }
}

ServerProcess::~ServerProcess() {
  stop();
  reader_.join();
  ::close(messages_);
}

void ServerProcess::read_messages() {
  std::string received;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t size = ::read(messages_, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    received.append(part.data(), static_cast<std::size_t>(size));
    for (std::size_t end = 0; (end = received.find('\n')) != std::string::npos; received.erase(0, end + 1)) {
      const std::string line = received.substr(0, end);
      const std::scoped_lock lock(mutex_);
      if (const std::size_t at = line.find(kListening); at != std::string::npos && said_url_.empty())
        said_url_ = line.substr(at + kListening.size());
      lines_.push_back(line);
      if (lines_.size() > kKeptLines) lines_.pop_front();
    }
  }
}

bool ServerProcess::ended() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ < 0;
}

void ServerProcess::stop() {
  if (ended()) return;
  ::kill(pid_, SIGTERM);
  for (auto waited = kGlance; !ended(); waited += kGlance) {
    if (waited > kPatience) ::kill(pid_, SIGKILL);
    std::this_thread::sleep_for(kGlance);
  }
}

std::string ServerProcess::last_messages() {
  const std::scoped_lock lock(mutex_);
  return fmt::format("{}", fmt::join(lines_, "; "));
}

std::uint64_t resident_bytes(pid_t pid) {
  std::ifstream pages(fmt::format("/proc/{}/statm", pid));
  std::uint64_t whole = 0, resident = 0;
  if (!(pages >> whole >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace perigee
