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

// The clock for work that `threads` threads share: where it is one, others on the machine do not count.
inline clockid_t work_clock(unsigned threads) {
  return threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
}

template <typename Work>
double work_seconds(unsigned threads, Work&& work) {
  const double begin = clock_seconds(work_clock(threads));
  work();
  return clock_seconds(work_clock(threads)) - begin;
}

}  // namespace perigee
