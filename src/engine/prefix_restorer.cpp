#include "engine/prefix_restorer.h"

#include <utility>

namespace perigee {

PrefixRestorer::PrefixRestorer(Find find, std::function<void()> on_ready)
    : find_(std::move(find)), on_ready_(std::move(on_ready)), thread_([this] { work(); }) {}

PrefixRestorer::~PrefixRestorer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PrefixRestorer::begin(JobId id, std::weak_ptr<const Sequence> sequence) {
  const std::scoped_lock lock(mutex_);
  wanted_.push_back({id, std::move(sequence)});
  changed_.notify_all();
}

std::vector<PrefixRestorer::Restored> PrefixRestorer::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(ready_, {});
}

void PrefixRestorer::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !wanted_.empty(); });
    if (stopping_) return;
    const Wanted wanted = std::move(wanted_.front());
    wanted_.pop_front();
    lock.unlock();
    if (const auto sequence = wanted.sequence.lock()) {
      Restored one = restored(wanted.id, sequence->request());
      {
        const std::scoped_lock again(mutex_);
        ready_.push_back(std::move(one));
      }
      on_ready_();
    }
    lock.lock();
  }
}

PrefixRestorer::Restored PrefixRestorer::restored(JobId id, const GenerationRequest& request) const {
  try {
    return {.id = id, .state = find_(request), .failure = nullptr};
  } catch (...) {
    return {.id = id, .state = std::nullopt, .failure = std::current_exception()};
  }
}

}  // namespace perigee
