// The engine of all bulk work: read extents of files, compute on worker threads, hand the results back in
// order.
//
//   for i in 0..count-1:  plan(i) -> what to read, how much scratch it needs
//                         reads run asynchronously (direct I/O, several tasks in flight)
//                         compute(task) on any worker, any order
//                         retire(task) strictly in order of i, on the calling thread
//
// Memory is bounded by a fixed number of equal slots, whatever the number of workers. The first error cancels
// the rest and is rethrown by run(). Deterministic: only retire() may have effects that depend on order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/async_io.h"
#include "base/cancel.h"
#include "base/file.h"

namespace perigee {

struct Extent {
  const File* file = nullptr;  // must outlive the task
  std::uint64_t offset = 0;    // any alignment
  std::uint64_t length = 0;
};

struct TaskPlan {
  std::vector<Extent> reads;
  std::uint64_t scratch_bytes = 0;  // output space for compute(), 4096-aligned
};

// What compute() and retire() see. The memory belongs to the pipeline's slot and is valid until retire()
// returns (or until `release` runs, if retire() took it over).
struct Task {
  std::size_t index = 0;
  std::vector<std::span<const std::byte>> inputs;  // one per Extent, in order
  std::span<std::byte> scratch;
  // Keeps the slot occupied while asynchronous writes from `scratch` are under way: copy this handle into the
  // completion; the slot is reused when the last copy dies. run() returns only after that.
  std::shared_ptr<void> slot;
};

struct PipelineOptions {
  unsigned workers = 0;                       // 0 = number of CPUs
  unsigned io_depth = 4;                      // tasks whose reads are under way at once
  std::uint64_t memory_bytes = 320ull << 20;  // at least one slot is always made
  const CancelToken* cancel = nullptr;
};

class Pipeline {
 public:
  // `io` must outlive the pipeline; it is shared with the caller's own writes.
  Pipeline(AsyncIo& io, PipelineOptions options);
  ~Pipeline();

  using PlanFunction = std::function<TaskPlan(std::size_t index)>;
  using ComputeFunction = std::function<void(Task&)>;
  using RetireFunction = std::function<void(Task&)>;
  // `largest` must cover every plan: the largest sum over a task of its aligned read lengths plus scratch;
  // see slot_bytes().
  void run(std::size_t count, std::uint64_t largest_slot, const PlanFunction& plan,
           const ComputeFunction& compute, const RetireFunction& retire);

  // Slot space that a plan needs, alignment included.
  static std::uint64_t slot_bytes(const TaskPlan& plan);

 private:
  struct State;
  class Run;
  std::unique_ptr<State> state_;
};

}  // namespace perigee
