// Events a second over about the last ten seconds: an exponential mean, so it needs no memory of single
// events.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace perigee {

class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void add(std::uint64_t events, Time now) {
    fade(now);
    weighed_ += static_cast<double>(events);
  }

  double rate(Time now) const {
    if (first_ == Time{}) return 0;
    // In the first seconds the mean has not seen kWindow yet.
    const double seen = seconds_between(first_, now);
    const double weight = kWindow * (1 - std::exp(-std::max(seen, kLeast) / kWindow));
    return weighed_ * std::exp(-seconds_between(last_, now) / kWindow) / weight;
  }

 private:
  static constexpr double kWindow = 10;  // seconds until an event counts 1/e
  static constexpr double kLeast = 0.1;

  static double seconds_between(Time begin, Time end) {
    return std::max(0.0, std::chrono::duration<double>(end - begin).count());
  }

  void fade(Time now) {
    if (first_ == Time{}) first_ = now;
    weighed_ *= std::exp(-seconds_between(last_ == Time{} ? now : last_, now) / kWindow);
    last_ = now;
  }

  double weighed_ = 0;
  Time first_{};
  Time last_{};
};

}  // namespace perigee
