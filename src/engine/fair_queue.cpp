#include "engine/fair_queue.h"

#include <algorithm>
#include <limits>

namespace perigee {

void FairQueue::push(WaitingJob waiting) {
  const std::uint64_t least = least_served();
  Client& client = clients_[waiting.job.client];
  if (client.jobs++ == 0) client.served = std::max(client.served, least);
  waiting_.push_back(std::move(waiting));
}

std::list<WaitingJob>::const_iterator FairQueue::find_next() const {
  const auto served = [&](const WaitingJob& waiting) { return clients_.at(waiting.job.client).served; };
  // The first of the best, which is the oldest.
  return std::min_element(waiting_.begin(), waiting_.end(), [&](const WaitingJob& a, const WaitingJob& b) {
    return a.job.priority != b.job.priority ? a.job.priority < b.job.priority : served(a) < served(b);
  });
}

const WaitingJob* FairQueue::next() const {
  const auto place = find_next();
  return place == waiting_.end() ? nullptr : &*place;
}

WaitingJob FairQueue::pop() {
  std::list<WaitingJob> popped;
  popped.splice(popped.begin(), waiting_, find_next());
  WaitingJob waiting = std::move(popped.front());
  charge(waiting.job.client, waiting.job.request.prompt.size());
  return waiting;
}

void FairQueue::charge(const std::string& client, std::uint64_t tokens) {
  clients_.at(client).served += tokens;
}

void FairQueue::give_back(const std::string& client, std::uint64_t tokens) {
  clients_.at(client).served -= tokens;
}

void FairQueue::leave(const std::string& client) {
  --clients_.at(client).jobs;
  forget_idle_clients();
}

std::vector<WaitingJob> FairQueue::take(const std::unordered_set<JobId>& ids) {
  std::vector<WaitingJob> taken;
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    if (!ids.contains(place->id)) {
      ++place;
      continue;
    }
    --clients_.at(place->job.client).jobs;
    taken.push_back(std::move(*place));
    place = waiting_.erase(place);
  }
  if (!taken.empty()) forget_idle_clients();
  return taken;
}

// Of the clients that are there; 0 if none is.
std::uint64_t FairQueue::least_served() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [name, client] : clients_) {
    if (client.jobs > 0) least = std::min(least, client.served);
  }
  return least == std::numeric_limits<std::uint64_t>::max() ? 0 : least;
}

// What would be raised to the common level on return need not be remembered.
void FairQueue::forget_idle_clients() {
  const bool all_idle =
      std::ranges::all_of(clients_, [](const auto& entry) { return entry.second.jobs == 0; });
  const std::uint64_t least = least_served();
  std::erase_if(clients_, [&](const auto& entry) {
    return entry.second.jobs == 0 && (all_idle || entry.second.served <= least);
  });
}

}  // namespace perigee
