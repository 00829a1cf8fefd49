#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
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

using Pieces = std::set<std::pair<std::size_t, std::size_t>>;

Pieces pieces_of(ThreadPool& pool, std::size_t count, std::size_t grain) {
  std::mutex mutex;
  Pieces pieces;
  pool.parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
    const std::lock_guard lock(mutex);
    pieces.emplace(begin, end);
  });
  return pieces;
}

TEST(ThreadPool, CutsOnlyAtMultiplesOfTheGrainAndAlwaysAtTheSamePlaces) {
  ThreadPool pool(3);
  Pieces many;  // shares of 24 grains, three together
  for (std::size_t begin = 0; begin < 286; begin += 12)
    many.emplace(begin, std::min<std::size_t>(begin + 12, 286));
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(pieces_of(pool, 100, 32), (Pieces{{0, 32}, {32, 64}, {64, 96}, {96, 100}}));
    EXPECT_EQ(pieces_of(pool, 286, 4), many);
  }
  ThreadPool alone(1);
  EXPECT_EQ(pieces_of(alone, 100, 32), (Pieces{{0, 100}}));
}

// The thread that has item 0 waits in it until all items outside that piece are done: another one did its
// share.
TEST(ThreadPool, DoesTheShareOfAThreadThatIsHeldUp) {
  for (const unsigned threads : {2u, 3u}) {
    ThreadPool pool(threads);
    std::atomic<std::size_t> done{0};
    bool all = false;
    pool.parallel_for(96, 1, [&](std::size_t begin, std::size_t end) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (begin == 0 && !all && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
        all = done == 96 - end;
      }
      done += end - begin;
    });
    EXPECT_TRUE(all) << threads;
    EXPECT_EQ(done, 96);
  }
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

// Every piece from the one with item `bad` on throws; that one first or, where it waits for the others, last.
void expect_lowest_exception(ThreadPool& pool, std::size_t bad, bool is_last) {
  std::atomic<std::size_t> ended{0};
  try {
    pool.parallel_for(64, 1, [&](std::size_t begin, std::size_t end) {
      ended += end - begin;
      while (is_last && begin <= bad && bad < end && ended < 64) std::this_thread::yield();
      if (end > bad) throw std::out_of_range(begin <= bad ? "lowest" : "another");
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "lowest") << bad << " " << is_last;
  }
  EXPECT_EQ(ended, 64);
}

TEST(ThreadPool, ThrowsTheExceptionOfTheLowestPieceAfterAllPiecesEnded) {
  ThreadPool pool(3);
  for (const std::size_t bad : {1u, 5u, 40u, 63u}) {
    for (const bool is_last : {false, true}) {
      expect_lowest_exception(pool, bad, is_last);
      std::atomic<int> sum{0};
      pool.parallel_for(64, 1,
                        [&](std::size_t begin, std::size_t end) { sum += static_cast<int>(end - begin); });
      EXPECT_EQ(sum, 64);  // it goes on working and has forgotten the exceptions
    }
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
