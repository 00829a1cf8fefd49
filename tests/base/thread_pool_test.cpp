#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace perigee {
namespace {

TEST(ThreadPool, VisitsEveryItemOnce) {
  for (const unsigned threads : {1u, 2u, 3u, 7u}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.threads(), threads);
    for (const std::size_t count : {0u, 1u, 2u, 5u, 64u, 1000u}) {
      for (const std::size_t grain : {0u, 1u, 3u, 32u}) {
        std::vector<int> visits(count);
        pool.parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_EQ(visits, std::vector<int>(count, 1)) << threads << " " << count << " " << grain;
      }
    }
  }
}

TEST(ThreadPool, CutsOnlyAtMultiplesOfTheGrainAndAlwaysAtTheSamePlaces) {
  ThreadPool pool(3);
  std::set<std::pair<std::size_t, std::size_t>> first;
  for (int round = 0; round < 20; ++round) {
    std::mutex mutex;
    std::set<std::pair<std::size_t, std::size_t>> parts;
    pool.parallel_for(100, 32, [&](std::size_t begin, std::size_t end) {
      const std::lock_guard lock(mutex);
      parts.emplace(begin, end);
    });
    if (round == 0) first = parts;
    EXPECT_EQ(parts, first);
  }
  EXPECT_EQ(first, (std::set<std::pair<std::size_t, std::size_t>>{{0, 32}, {32, 64}, {64, 100}}));
}

TEST(ThreadPool, WorksOnAllItsThreadsAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> arrived{0};
  pool.parallel_for(3, 1, [&](std::size_t, std::size_t) {  // ends only if three threads meet
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 3);
}

TEST(ThreadPool, RunsALoopInsideABodyOnTheSameThread) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  pool.parallel_for(4, 1, [&](std::size_t begin, std::size_t end) {
    const auto outer = std::this_thread::get_id();
    for (std::size_t i = begin; i < end; ++i) {
      pool.parallel_for(10, 1, [&](std::size_t inner_begin, std::size_t inner_end) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        sum += static_cast<int>(inner_end - inner_begin);
      });
    }
  });
  EXPECT_EQ(sum, 40);
}

TEST(ThreadPool, ThrowsTheExceptionOfTheLowestPartAfterAllPartsEnded) {
  ThreadPool pool(3);
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> ended{0};
    try {
      pool.parallel_for(3, 1, [&](std::size_t begin, std::size_t) {
        if (begin == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++ended;
        if (begin >= 1) throw std::runtime_error(begin == 1 ? "one" : "two");
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "one");
    }
    EXPECT_EQ(ended, 3);
    int sum = 0;
    pool.parallel_for(1, 1, [&](std::size_t, std::size_t) { sum = 1; });  // and goes on working
    EXPECT_EQ(sum, 1);
  }
}

TEST(ThreadPool, ServesSeveralCallersOneAfterTheOther) {
  ThreadPool pool(2);
  std::atomic<int> loops{0};
  std::atomic<bool> overlap{false};
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<int> own{0};
        pool.parallel_for(2, 1, [&](std::size_t begin, std::size_t end) {
          if (begin == 0 && ++loops > 1) overlap = true;
          own += static_cast<int>(end - begin);
          if (begin == 0) --loops;
        });
        total += own;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_FALSE(overlap);
  EXPECT_EQ(total, 3 * 50 * 2);
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> arrived{0};
    pool.parallel_for(2, 1, [&](std::size_t, std::size_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

}  // namespace
}  // namespace perigee
