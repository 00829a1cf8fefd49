// AsyncIo over a few threads that call pread and pwrite: works everywhere, costs more CPU per byte than
// io_uring.
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/async_io_backends.h"

namespace perigee {
namespace {

// More threads than this do not make a disk faster (docs/performance.md).
constexpr unsigned kMaxThreads = 8;

class ThreadIo final : public AsyncIo {
 public:
  explicit ThreadIo(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }

  ~ThreadIo() override {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void read(int fd, std::span<std::byte> buffer, std::uint64_t offset, Done done) override {
    enqueue([=, done = std::move(done)] { done(transfer(buffer.size(), offset, false, fd, buffer.data())); });
  }

  void write(int fd, std::span<const std::byte> buffer, std::uint64_t offset, Done done) override {
    auto* bytes = const_cast<std::byte*>(buffer.data());
    enqueue([=, done = std::move(done)] { done(transfer(buffer.size(), offset, true, fd, bytes)); });
  }

  void register_memory(std::span<std::byte>) override {}
  const char* name() const override { return "threads"; }

 private:
  static IoResult transfer(std::uint64_t length, std::uint64_t offset, bool is_write, int fd,
                           std::byte* buffer) {
    IoResult result;
    while (result.bytes < length) {
      const auto position = static_cast<off_t>(offset + result.bytes);
      const ssize_t n = is_write ? ::pwrite(fd, buffer + result.bytes, length - result.bytes, position)
                                 : ::pread(fd, buffer + result.bytes, length - result.bytes, position);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n < 0 && !is_end_of_direct_file(errno, is_write, result.bytes)) result.error = errno;
      if (n == 0 && is_write) result.error = ENOSPC;
      if (n <= 0) break;
      result.bytes += static_cast<std::uint64_t>(n);
    }
    return result;
  }

  void enqueue(std::function<void()> job) {
    {
      const std::scoped_lock lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<AsyncIo> make_thread_io(unsigned depth) {
  return std::make_unique<ThreadIo>(std::clamp(depth, 1u, kMaxThreads));
}

}  // namespace perigee
