#include "base/thread_pool.h"

#include <algorithm>

namespace perigee {
namespace {

// Some 20 to 50 microseconds: longer than the gap between two loops of one layer, short beside a time slice.
constexpr int kLooks = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns when `value` is no longer `old`.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int look = 0; look < kLooks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

void ThreadPool::Loop::part(unsigned index, unsigned parts) const {
  const std::size_t blocks = (count + grain - 1) / grain;
  const std::size_t begin = std::min(count, blocks * index / parts * grain);
  const std::size_t end = std::min(count, blocks * (index + 1) / parts * grain);
  if (begin < end) call(context, begin, end);
}

ThreadPool::ThreadPool(unsigned threads) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  thrown_.resize(threads);
  try {
    for (unsigned index = 1; index < threads; ++index) workers_.emplace_back([this, index] { work(index); });
  } catch (...) {  // the system refuses more threads: those that run are told to end
    stop_ = true;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::is_inside() const {
  const std::thread::id self = std::this_thread::get_id();
  if (caller_.load(std::memory_order_relaxed) == self) return true;
  return std::any_of(workers_.begin(), workers_.end(),
                     [self](const std::thread& worker) { return worker.get_id() == self; });
}

void ThreadPool::run(const Loop& loop) {
  const Loop checked{loop.call, loop.context, loop.count, std::max<std::size_t>(loop.grain, 1)};
  if (workers_.empty() || checked.count <= checked.grain || is_inside()) {
    checked.part(0, 1);
    return;
  }
  const std::lock_guard lock(callers_);
  caller_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  loop_ = checked;
  working_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  guarded_part(0);
  for (std::uint32_t left = working_.load(std::memory_order_acquire); left != 0;
       left = working_.load(std::memory_order_acquire)) {
    wait_while(working_, left);
  }
  caller_.store(std::thread::id(), std::memory_order_relaxed);
  std::exception_ptr first;
  for (std::exception_ptr& thrown : thrown_) {
    if (thrown && !first) first = thrown;
    thrown = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void ThreadPool::guarded_part(unsigned index) {
  try {
    loop_.part(index, threads());
  } catch (...) {
    thrown_[index] = std::current_exception();
  }
}

void ThreadPool::work(unsigned index) {
  for (std::uint32_t seen = 0;;) {
    wait_while(round_, seen);
    ++seen;  // the next round begins only when every worker has ended this one
    if (stop_) return;
    guarded_part(index);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_all();
  }
}

}  // namespace perigee
