// A fixed set of threads that share a loop. Each begins with a contiguous share of its own, cut into a few
// pieces at places that depend on nothing but the loop and the number of threads; who is done takes pieces of
// the others' shares, so that a core that is slowed down (by another program, another virtual machine, its
// own clock) does not keep the others waiting. The calling thread works too. Made for loops of microseconds
// to milliseconds that follow each other closely: a worker looks for the next loop for a short while before
// it sleeps. Deliberately no task queue, no futures, no priorities.
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

  // Calls body(begin, end) on disjoint pieces of [0, count), several for each thread, whose inner borders are
  // multiples of `grain` (at least 1), and returns when all are done; with one thread, or no more than
  // `grain` items, there is one piece. If bodies throw, every piece still runs, then the exception of the
  // lowest one is thrown here. A loop inside a body runs on the thread that asks for it, in one piece. Loops
  // that two other threads ask for at once run one after the other.
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
    std::size_t grains() const { return (count + grain - 1) / grain; }
    void run(std::size_t first, std::size_t last) const;  // the items of grains [first, last)
  };

  // What one thread begins with, in grains of the loop: [next, end) is not yet taken by anyone, who takes
  // some takes `step` of them. Lines of their own, as threads write at the same time.
  struct alignas(64) Share {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
    std::size_t step = 1;
    std::size_t thrown_at = 0;  // of the thread's own pieces that threw, the lowest
    std::exception_ptr thrown;
  };

  void run(const Loop& loop);
  void work(unsigned index);
  void share_out();
  void help(unsigned index);
  void run_pieces(Share& from, Share& own);
  void rethrow_lowest();
  bool is_inside() const;

  std::vector<std::thread> workers_;
  std::mutex callers_;  // one loop at a time
  std::atomic<std::thread::id> caller_{};
  Loop loop_;                  // published by round_, as are the shares
  std::vector<Share> shares_;  // one for each thread
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> working_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace perigee
