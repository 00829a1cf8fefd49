// Fetches states of known prefixes on a thread of its own: reading a file of hundreds of megabytes, or
// copying as much, must not hold up everybody's next token. One at a time, in the order of asking. Decides
// nothing: the scheduler says whose prefix is worth a look and what becomes of the state.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/job.h"

namespace perigee {

class PrefixRestorer {
 public:
  struct Restored {
    JobId id = 0;
    std::optional<SequenceState> state;  // unset: nothing usable was found
    std::exception_ptr failure;          // of a machine out of memory
  };
  using Find = std::function<std::optional<SequenceState>(const GenerationRequest&)>;

  // `find` and `on_ready` are called on the thread; the latter whenever take() has something new.
  PrefixRestorer(Find find, std::function<void()> on_ready);
  ~PrefixRestorer();  // what waits is dropped, what is being read is finished
  PrefixRestorer(const PrefixRestorer&) = delete;
  PrefixRestorer& operator=(const PrefixRestorer&) = delete;

  // Reads the sequence's request and nothing else of it. A sequence that nobody holds any more when its turn
  // comes is passed over.
  void begin(JobId id, std::weak_ptr<const Sequence> sequence);

  std::vector<Restored> take();

 private:
  struct Wanted {
    JobId id = 0;
    std::weak_ptr<const Sequence> sequence;
  };

  void work();
  Restored restored(JobId id, const GenerationRequest& request) const;

  const Find find_;
  const std::function<void()> on_ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Wanted> wanted_;
  std::vector<Restored> ready_;
  bool stopping_ = false;
  std::thread thread_;  // last, because it uses all the others
};

}  // namespace perigee
