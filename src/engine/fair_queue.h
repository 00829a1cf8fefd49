// Who comes next: the lowest priority number, among those the client that was served least, of its jobs the
// oldest. Service is counted in tokens. A client that was away comes back at the level of the least served
// one that is there, so nobody saves up for a burst. No threads and no memory limits: scheduler.h has those.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/job.h"

namespace perigee {

struct WaitingJob {
  JobId id = 0;
  Job job;
  std::uint64_t bytes = 0;  // its longest state
  std::chrono::steady_clock::time_point since;
};

class FairQueue {
 public:
  void push(WaitingJob waiting);
  std::size_t size() const { return waiting_.size(); }

  const WaitingJob* next() const;  // nullptr if nobody waits
  // Takes out next(), whose client is charged for its prompt and counts as present until it leaves.
  WaitingJob pop();

  // A client has been served: one of its running jobs got so many tokens.
  void charge(const std::string& client, std::uint64_t tokens);
  // Part of a prompt was known already and cost nothing.
  void give_back(const std::string& client, std::uint64_t tokens);
  // One of the client's running jobs has ended.
  void leave(const std::string& client);

  // Takes out the waiting jobs among `ids`.
  std::vector<WaitingJob> take(const std::unordered_set<JobId>& ids);

 private:
  struct Client {
    std::uint64_t served = 0;
    std::size_t jobs = 0;  // waiting and running
  };
  using Place = std::list<WaitingJob>::iterator;

  std::list<WaitingJob>::const_iterator find_next() const;
  std::uint64_t least_served() const;
  void forget_idle_clients();

  std::list<WaitingJob> waiting_;  // oldest first
  std::unordered_map<std::string, Client> clients_;
};

}  // namespace perigee
