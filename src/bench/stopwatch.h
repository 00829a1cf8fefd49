// How long a piece of work takes, by two clocks.
#pragma once

#include <time.h>

namespace perigee {

inline double clock_seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename Work>
double wall_seconds(Work&& work) {
  const double begin = clock_seconds(CLOCK_MONOTONIC);
  work();
  return clock_seconds(CLOCK_MONOTONIC) - begin;
}

// Of all threads of this process together. For work on one thread: the same as the time on the wall, unless
// others use the machine as well.
template <typename Work>
double cpu_seconds(Work&& work) {
  const double begin = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  work();
  return clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
}

}  // namespace perigee
