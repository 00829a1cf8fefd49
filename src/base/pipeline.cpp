#include "base/pipeline.h"

#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/huge_pages.h"

namespace perigee {
namespace {

// Slots beyond those that are being read: one per worker, and some for results that wait for their turn or
// whose writes are under way.
constexpr unsigned kSlotsForRetiring = 4;

// Anonymous memory for all slots, so that it can be registered with the kernel in one piece.
class Arena {
 public:
  explicit Arena(std::uint64_t bytes) : bytes_(bytes) {
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) fail_errno(errno, fmt::format("cannot reserve {} bytes of memory", bytes));
    prefer_huge_pages(memory_, bytes);
  }
  ~Arena() { ::munmap(memory_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::span<std::byte> span() const { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  std::uint64_t bytes_;
  void* memory_;
};

struct RunningTask {
  Task task;
  TaskPlan plan;
  std::size_t reads_left = 0;
  bool computed = false;
};

}  // namespace

struct Pipeline::State {
  AsyncIo& io;
  PipelineOptions options;
  std::vector<std::thread> workers;

  std::mutex mutex;
  std::condition_variable changed;       // for the calling thread
  std::condition_variable work_arrived;  // for the workers
  bool stopping = false;
  std::deque<RunningTask*> ready;  // read, not computed
  std::deque<std::size_t> free_slots;
  std::size_t reading = 0;  // tasks with reads under way
  std::exception_ptr error;
  const ComputeFunction* compute = nullptr;

  State(AsyncIo& io_in, const PipelineOptions& options_in) : io(io_in), options(options_in) {
    if (options.workers == 0) options.workers = std::max(1u, std::thread::hardware_concurrency());
    options.io_depth = std::max(1u, options.io_depth);
    for (unsigned i = 0; i < options.workers; ++i) workers.emplace_back([this] { work(); });
  }

  ~State() {
    {
      const std::scoped_lock lock(mutex);
      stopping = true;
    }
    work_arrived.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      work_arrived.wait(lock, [this] { return stopping || !ready.empty(); });
      if (stopping) return;
      RunningTask* running = ready.front();
      ready.pop_front();
      const bool skip = error != nullptr;
      lock.unlock();
      std::exception_ptr failure;
      if (!skip) {
        try {
          (*compute)(running->task);
        } catch (...) {
          failure = std::current_exception();
        }
      }
      lock.lock();
      running->computed = true;
      if (failure && !error) error = failure;
      changed.notify_all();
    }
  }

  // Call without the mutex. Throws nothing: a failed read becomes the run's error.
  void issue_reads(RunningTask* running, std::span<std::byte> slot);
  void finish_read(RunningTask* running, std::size_t input, std::uint64_t needed, IoResult result);
};

namespace {

struct AlignedRead {
  std::uint64_t offset;
  std::uint64_t length;
};

AlignedRead aligned_read(const Extent& extent) {
  const std::uint64_t begin = align_down(extent.offset, kDirectAlignment);
  return {begin, align_up(extent.offset + extent.length, kDirectAlignment) - begin};
}

}  // namespace

void Pipeline::State::issue_reads(RunningTask* running, std::span<std::byte> slot) {
  std::uint64_t used = 0;
  const std::vector<Extent>& reads = running->plan.reads;
  std::vector<std::span<std::byte>> buffers;
  for (const Extent& extent : reads) {
    const AlignedRead read = aligned_read(extent);
    buffers.push_back(slot.subspan(used, read.length));
    running->task.inputs.push_back(slot.subspan(used + (extent.offset - read.offset), extent.length));
    used += read.length;
  }
  running->task.scratch = slot.subspan(used, running->plan.scratch_bytes);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const AlignedRead read = aligned_read(reads[i]);
    const std::uint64_t needed = reads[i].offset - read.offset + reads[i].length;
    io.read(reads[i].file->fd(), buffers[i], read.offset,
            [this, running, i, needed](IoResult result) { finish_read(running, i, needed, result); });
  }
}

void Pipeline::State::finish_read(RunningTask* running, std::size_t input, std::uint64_t needed,
                                  IoResult result) {
  std::exception_ptr failure;
  try {
    const Extent& extent = running->plan.reads[input];
    if (result.error != 0) {
      fail_errno(result.error,
                 fmt::format("cannot read {} at byte {}", extent.file->path().string(), extent.offset));
    }
    if (result.bytes < needed) {
      fail(ErrorCode::kCorrupt, "{} ended while it was read: {} bytes at {} are not there any more",
           extent.file->path().string(), extent.length, extent.offset);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const std::scoped_lock lock(mutex);
  if (failure && !error) error = failure;
  if (--running->reads_left > 0) return;
  --reading;
  ready.push_back(running);
  work_arrived.notify_one();
  changed.notify_all();
}

// One run(): the calling thread starts tasks, retires them in order and waits.
class Pipeline::Run {
 public:
  Run(State& state, std::size_t count, std::uint64_t slot_size, std::size_t slots, const PlanFunction& plan,
      const RetireFunction& retire)
      : state_(state),
        count_(count),
        slot_size_(slot_size),
        slots_(slots),
        plan_(plan),
        retire_(retire),
        arena_(slots * slot_size) {
    state.io.register_memory(arena_.span());
  }

  // Throws the first error after everything under way has come to rest.
  void execute(const ComputeFunction& compute) {
    std::unique_lock lock(state_.mutex);
    state_.compute = &compute;
    state_.error = nullptr;
    state_.free_slots.clear();
    for (std::size_t i = 0; i < slots_; ++i) state_.free_slots.push_back(i);
    while (next_ < count_ || !running_.empty()) {
      note_cancellation();
      if (state_.error && running_.empty()) break;
      if (!running_.empty() && running_.front()->computed) {
        retire_front(lock);
      } else if (can_start()) {
        start_next(lock);
      } else {
        state_.changed.wait_for(lock, std::chrono::milliseconds(100));
      }
    }
    state_.changed.wait(lock, [this] { return state_.free_slots.size() == slots_; });
    state_.compute = nullptr;
    const std::exception_ptr error = state_.error;
    lock.unlock();
    state_.io.register_memory({});
    if (error) std::rethrow_exception(error);
  }

 private:
  void note_cancellation() {
    if (state_.error || state_.options.cancel == nullptr) return;
    try {
      state_.options.cancel->check();
    } catch (...) {
      state_.error = std::current_exception();
    }
  }

  bool can_start() const {
    return !state_.error && next_ < count_ && !state_.free_slots.empty() &&
           state_.reading < state_.options.io_depth;
  }

  // The slot returns to the pool when the last copy of this handle dies, whatever happened meanwhile.
  std::shared_ptr<void> slot_handle(std::size_t slot) {
    // Not null: a holder may ask whether it was given a handle.
    return {arena_.span().data() + slot * slot_size_, [&state = state_, slot](void*) {
              const std::scoped_lock lock(state.mutex);
              state.free_slots.push_back(slot);
              state.changed.notify_all();
            }};
  }

  std::unique_ptr<RunningTask> make_task(std::size_t slot) {
    auto task = std::make_unique<RunningTask>();
    task->task.index = next_;
    task->task.slot = slot_handle(slot);
    task->plan = plan_(next_);
    task->reads_left = task->plan.reads.size();
    if (const std::uint64_t needed = slot_bytes(task->plan); needed > slot_size_) {
      fail(ErrorCode::kInternal, "pipeline task {} needs {} bytes, slots have {}", next_, needed, slot_size_);
    }
    return task;
  }

  void start_next(std::unique_lock<std::mutex>& lock) {
    const std::size_t slot = state_.free_slots.front();
    state_.free_slots.pop_front();
    lock.unlock();
    std::unique_ptr<RunningTask> task;
    std::exception_ptr failure;
    try {
      task = make_task(slot);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      if (!state_.error) state_.error = failure;
      return;
    }
    ++next_;
    RunningTask* raw = task.get();
    running_.push_back(std::move(task));
    if (raw->plan.reads.empty()) {
      raw->task.scratch = arena_.span().subspan(slot * slot_size_, raw->plan.scratch_bytes);
      state_.ready.push_back(raw);
      state_.work_arrived.notify_one();
      return;
    }
    ++state_.reading;
    lock.unlock();
    state_.issue_reads(raw, arena_.span().subspan(slot * slot_size_, slot_size_));
    lock.lock();
  }

  void retire_front(std::unique_lock<std::mutex>& lock) {
    std::unique_ptr<RunningTask> task = std::move(running_.front());
    running_.pop_front();
    const bool skip = state_.error != nullptr;
    lock.unlock();
    std::exception_ptr failure;
    if (!skip) {
      try {
        retire_(task->task);
      } catch (...) {
        failure = std::current_exception();
      }
    }
    task.reset();
    lock.lock();
    if (failure && !state_.error) state_.error = failure;
  }

  State& state_;
  const std::size_t count_;
  const std::uint64_t slot_size_;
  const std::size_t slots_;
  const PlanFunction& plan_;
  const RetireFunction& retire_;
  const Arena arena_;
  std::deque<std::unique_ptr<RunningTask>> running_;  // in order of index; the front retires next
  std::size_t next_ = 0;
};

Pipeline::Pipeline(AsyncIo& io, PipelineOptions options) : state_(std::make_unique<State>(io, options)) {}
Pipeline::~Pipeline() = default;

std::uint64_t Pipeline::slot_bytes(const TaskPlan& plan) {
  std::uint64_t bytes = align_up(plan.scratch_bytes, kDirectAlignment);
  for (const Extent& extent : plan.reads) bytes += aligned_read(extent).length;
  return bytes;
}

void Pipeline::run(std::size_t count, std::uint64_t largest_slot, const PlanFunction& plan,
                   const ComputeFunction& compute, const RetireFunction& retire) {
  if (count == 0) return;
  const PipelineOptions& options = state_->options;
  const std::uint64_t slot_size =
      std::max<std::uint64_t>(align_up(largest_slot, kDirectAlignment), kDirectAlignment);
  const std::uint64_t wanted = options.io_depth + options.workers + kSlotsForRetiring;
  const std::uint64_t affordable = std::max<std::uint64_t>(1, options.memory_bytes / slot_size);
  Run(*state_, count, slot_size, std::min<std::uint64_t>({wanted, affordable, count}), plan, retire)
      .execute(compute);
}

}  // namespace perigee
