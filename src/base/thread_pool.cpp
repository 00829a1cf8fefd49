#include "base/thread_pool.h"

#include <algorithm>

namespace perigee {
namespace {

// Some 20 to 50 microseconds: longer than the gap between two loops of one layer, short beside a time slice.
constexpr int kLooks = 1000;

// A share has at least as many where its grains suffice, and fewer than twice as many: taking one costs
// nothing beside its work, and the last one, for which all may have to wait, is a small part of the loop.
constexpr std::size_t kPieces = 8;

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

void ThreadPool::Loop::run(std::size_t first, std::size_t last) const {
  const std::size_t begin = std::min(count, first * grain);
  const std::size_t end = std::min(count, last * grain);
  if (begin < end) call(context, begin, end);
}

ThreadPool::ThreadPool(unsigned threads)
    : shares_(threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency())) {
  try {
    for (unsigned index = 1; index < shares_.size(); ++index)
      workers_.emplace_back([this, index] { work(index); });
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
    checked.run(0, checked.grains());
    return;
  }
  const std::lock_guard lock(callers_);
  caller_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  loop_ = checked;
  share_out();
  working_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  help(0);
  for (std::uint32_t left = working_.load(std::memory_order_acquire); left != 0;
       left = working_.load(std::memory_order_acquire)) {
    wait_while(working_, left);
  }
  caller_.store(std::thread::id(), std::memory_order_relaxed);
  rethrow_lowest();
}

void ThreadPool::share_out() {
  const std::size_t grains = loop_.grains(), threads = shares_.size();
  for (std::size_t i = 0; i < threads; ++i) {
    const std::size_t begin = grains * i / threads;
    shares_[i].end = grains * (i + 1) / threads;
    shares_[i].step = std::max<std::size_t>(1, (shares_[i].end - begin) / kPieces);
    shares_[i].next.store(begin, std::memory_order_relaxed);
  }
}

// The own share first, then the others' in turn.
void ThreadPool::help(unsigned index) {
  for (std::size_t i = 0; i < shares_.size(); ++i)
    run_pieces(shares_[(index + i) % shares_.size()], shares_[index]);
}

void ThreadPool::run_pieces(Share& from, Share& own) {
  while (from.next.load(std::memory_order_relaxed) < from.end) {  // looking does not take the line away
    const std::size_t first = from.next.fetch_add(from.step, std::memory_order_relaxed);
    if (first >= from.end) return;
    try {
      loop_.run(first, std::min(from.end, first + from.step));
    } catch (...) {
      if (own.thrown && own.thrown_at < first) continue;
      own.thrown_at = first;
      own.thrown = std::current_exception();
    }
  }
}

void ThreadPool::rethrow_lowest() {
  const Share* lowest = nullptr;
  for (const Share& share : shares_)
    if (share.thrown && (lowest == nullptr || share.thrown_at < lowest->thrown_at)) lowest = &share;
  if (lowest == nullptr) return;
  const std::exception_ptr thrown = lowest->thrown;
  for (Share& share : shares_) share.thrown = nullptr;
  std::rethrow_exception(thrown);
}

void ThreadPool::work(unsigned index) {
  for (std::uint32_t seen = 0;;) {
    wait_while(round_, seen);
    ++seen;  // the next round begins only when every worker has ended this one
    if (stop_) return;
    help(index);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_all();
  }
}

}  // namespace perigee
