// A fixed set of threads that share a loop: item i of a loop of n always goes to the part that owns i, parts
// are contiguous, nothing is stolen. The calling thread works too. Made for loops of microseconds to
// milliseconds that follow each other closely: a worker looks for the next loop for a short while before it
// sleeps. Deliberately no task queue, no futures, no priorities.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace perigee {

class ThreadPool {
 public:
  // The caller counts as one of `threads`; 0 means one for each core.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // Calls body(begin, end) on up to threads() parts of [0, count), whose inner borders are multiples of
  // `grain` (at least 1), and returns when all are done. If bodies throw, every part still ends first, then
  // the exception of the lowest part is thrown here. A loop inside a body runs on the thread that asks for
  // it. Loops that two other threads ask for at once run one after the other.
  template <typename Body>
  void parallel_for(std::size_t count, std::size_t grain, Body&& body) {
    run({[](const void* context, std::size_t begin, std::size_t end) {
           (*static_cast<std::remove_reference_t<Body>*>(const_cast<void*>(context)))(begin, end);
         },
         &body, count, grain});
  }

 private:
  struct Loop {
    void (*call)(const void* context, std::size_t begin, std::size_t end) = nullptr;
    const void* context = nullptr;
    std::size_t count = 0;
    std::size_t grain = 1;
    void part(unsigned index, unsigned parts) const;
  };

  void run(const Loop& loop);
  void work(unsigned index);
  void guarded_part(unsigned index);
  bool is_inside() const;

  std::vector<std::thread> workers_;
  std::mutex callers_;  // one loop at a time
  std::atomic<std::thread::id> caller_{};
  Loop loop_;                               // published by round_
  std::vector<std::exception_ptr> thrown_;  // one for each part
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> working_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace perigee
