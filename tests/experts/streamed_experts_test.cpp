// What streaming promises: every expert that was asked for, with its own bytes, whatever the memory, the
// policy and the disk do; and an error that names what is wrong, for that expert only.
#include "experts/streamed_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "experts/numbered_experts.h"
#include "experts/slow_io.h"

namespace perigee {
namespace {

using test::NumberedExperts;
using test::SlowIo;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<std::uint32_t>;

const NumberedExperts& numbered() {
  static const NumberedExperts experts;
  return experts;
}

struct Streaming {
  explicit Streaming(StreamedOptions options, SlowIo::Plan plan = {}, bool checksums = true) {
    options.make_io = [this, &plan] {
      auto slow = std::make_unique<SlowIo>(std::move(plan));
      io = slow.get();
      return slow;
    };
    source = std::make_unique<StreamedExperts>(numbered().open(checksums), std::move(options));
  }
  std::unique_ptr<StreamedExperts> source;
  SlowIo* io = nullptr;
};

StreamedOptions slots(std::size_t count) {
  StreamedOptions options;
  options.slots = count;
  return options;
}

Ids first_ids(std::uint32_t count) {
  Ids ids(count);
  for (std::uint32_t i = 0; i < count; ++i) ids[i] = i;
  return ids;
}

// Takes all that the lease gives; the experts that were whole and the sentences of those that failed.
struct Taken {
  std::multiset<std::uint32_t> whole;
  std::map<std::uint32_t, std::string> failed;
};

Taken take_all(ExpertSource& source, std::uint64_t layer, const Ids& ids) {
  Taken taken;
  const auto lease = source.acquire(layer, ids);
  for (;;) {
    try {
      const auto arrived = lease->next();
      if (!arrived) return taken;
      EXPECT_TRUE(test::is_run_of(arrived->weights, layer, ids[arrived->index]))
          << "layer " << layer << " expert " << ids[arrived->index];
      taken.whole.insert(ids[arrived->index]);
    } catch (const ExpertUnavailable& error) {
      taken.failed[ids[error.index()]] = error.what();
    }
  }
}

std::multiset<std::uint32_t> all_of(const Ids& ids) {
  return {ids.begin(), ids.end()};
}

Ids some_ids(std::mt19937& random, std::size_t count) {
  std::set<std::uint32_t> ids;
  while (ids.size() < count) ids.insert(random() % NumberedExperts::kExperts);
  return {ids.begin(), ids.end()};
}

TEST(StreamedExperts, GiveEveryExpertOnceFromAnyNumberOfSlotsUnderAnyPolicy) {
  for (const std::size_t count : {1, 3, 15, 16, 128}) {
    for (const auto policy :
         {CachePolicyKind::kPopular, CachePolicyKind::kLeastStale, CachePolicyKind::kLru}) {
      StreamedOptions options = slots(count);
      options.policy = policy;
      const Streaming streaming(std::move(options), {.most_microseconds = 50, .fate = {}});
      std::mt19937 random(static_cast<unsigned>(count));
      for (int token = 0; token < 4; ++token) {
        for (std::uint64_t layer = 1; layer < NumberedExperts::kLayers; ++layer) {
          const Ids ids = some_ids(random, 16);
          EXPECT_EQ(take_all(*streaming.source, layer, ids).whole, all_of(ids));
        }
      }
      const StreamingStatistics s = streaming.source->statistics();
      EXPECT_EQ(s.asked, 4u * 4 * 16);
      EXPECT_EQ(s.asked, s.hits_pinned + s.hits_pool + s.hits_prefetch + s.joined + s.misses);
      EXPECT_EQ(s.bytes_used, s.asked * NumberedExperts::kBytes);
      EXPECT_EQ(s.reads, s.misses) << cache_policy_name(policy) << ' ' << count;
    }
  }
}

TEST(StreamedExperts, ReadNothingTwiceWhenEverythingFits) {
  const Streaming streaming(slots(4 * NumberedExperts::kExperts));
  for (int token = 0; token < 3; ++token) {
    for (std::uint64_t layer = 1; layer < NumberedExperts::kLayers; ++layer) {
      take_all(*streaming.source, layer, first_ids(NumberedExperts::kExperts));
    }
  }
  EXPECT_EQ(streaming.io->offsets().size(), 4 * NumberedExperts::kExperts);
}

TEST(StreamedExperts, GiveAPromptsWholeLayerThroughAFewSlots) {
  const Streaming streaming(slots(2));
  const Ids all = first_ids(NumberedExperts::kExperts);
  EXPECT_EQ(take_all(*streaming.source, 2, all).whole, all_of(all));
  EXPECT_EQ(streaming.io->offsets().size(), all.size());
}

TEST(StreamedExperts, HandOutWhatIsPresentBeforeTheyWaitForADisk) {
  const Streaming streaming(slots(8), {.most_microseconds = 20000, .fate = {}});
  take_all(*streaming.source, 1, {20, 30});
  const Ids ids = {0, 1, 20, 25, 30};
  const auto lease = streaming.source->acquire(1, ids);
  EXPECT_THAT((std::set{ids[lease->next()->index], ids[lease->next()->index]}),
              ::testing::ElementsAre(20, 30));
}

// One at a time: two that may be read are handed to the disk by two threads, and which is first is chance.
TEST(StreamedExperts, ReadInTheOrderOfTheFile) {
  StreamedOptions options = slots(32);
  options.reads_per_drive = 1;
  const Streaming streaming(std::move(options), {.most_microseconds = 300});
  Ids ids = first_ids(32);
  std::ranges::shuffle(ids, std::mt19937(5));
  take_all(*streaming.source, 3, ids);
  EXPECT_TRUE(std::ranges::is_sorted(streaming.io->offsets()));
  EXPECT_EQ(streaming.io->offsets().size(), 32u);
}

TEST(StreamedExperts, ReadAFewAtATime) {
  StreamedOptions options = slots(32);
  options.reads_per_drive = 3;
  const Streaming streaming(std::move(options), {.most_microseconds = 100, .gather = 3});
  take_all(*streaming.source, 3, first_ids(32));
  EXPECT_EQ(streaming.io->most_at_once(), 3u);
}

TEST(StreamedExperts, LeasesOfManyThreadsShareOneSlot) {
  const Streaming streaming(slots(1), {.most_microseconds = 30, .fate = {}});
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 10; ++i) {
        const Ids ids = some_ids(random, 5);
        EXPECT_EQ(take_all(*streaming.source, 1 + random() % 4, ids).whole, all_of(ids));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Also what ThreadSanitizer looks at.
TEST(StreamedExperts, AreRightUnderEverythingAtOnce) {
  StreamedOptions options = slots(12);
  options.verify = VerifyReads::kAlways;
  const Streaming streaming(std::move(options),
                            {.most_microseconds = 40, .fate = [](std::uint64_t offset, unsigned n) {
                               const auto kind = (offset / 4096 + 3 * n) % 11;
                               if (n > 1) return 0;
                               if (kind == 0) return EIO;
                               return kind == 1 ? SlowIo::kCutShort : kind == 2 ? SlowIo::kDamaged : 0;
                             }});
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 25; ++i) {
        const std::uint64_t layer = 1 + random() % 4;
        streaming.source->prefetch(1 + layer % 4, some_ids(random, 6));
        const Ids ids = some_ids(random, 1 + random() % 16);
        if (i % 5 == 4) {  // given up in the middle
          const auto lease = streaming.source->acquire(layer, ids);
          EXPECT_TRUE(lease->next().has_value());
          continue;
        }
        const Taken taken = take_all(*streaming.source, layer, ids);
        EXPECT_EQ(taken.whole.size() + taken.failed.size(), ids.size());
        streaming.source->statistics();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(streaming.source->statistics().retries, 0u);
}

TEST(StreamedExperts, TryAgainAfterAnErrorAndAfterAShortRead) {
  const Streaming streaming(slots(4), {.most_microseconds = 0, .fate = [](std::uint64_t, unsigned n) {
                                         return n == 0 ? EIO : n == 1 ? SlowIo::kCutShort : 0;
                                       }});
  EXPECT_EQ(take_all(*streaming.source, 1, {7}).whole, all_of({7}));
  EXPECT_EQ(streaming.source->statistics().retries, 2u);
}

TEST(StreamedExperts, NameTheExpertThatCannotBeReadAndGiveTheOthers) {
  const std::uint64_t bad = NumberedExperts::read_offset_of(2, 5);
  const Streaming streaming(slots(3), {.most_microseconds = 0, .fate = [bad](std::uint64_t offset, unsigned) {
                                         return offset == bad ? EIO : 0;
                                       }});
  const Taken taken = take_all(*streaming.source, 2, {3, 5, 9, 11});
  EXPECT_EQ(taken.whole, all_of({3, 9, 11}));
  ASSERT_EQ(taken.failed.size(), 1u);
  EXPECT_THAT(taken.failed.at(5), AllOf(HasSubstr("expert 5 of layer 2 in " + numbered().file().string()),
                                        HasSubstr(std::to_string(NumberedExperts::offset_of(2, 5))),
                                        HasSubstr("Input/output error")));
  EXPECT_EQ(streaming.source->statistics().failures, 1u);
  // Later steps try again, and the slot is not lost.
  EXPECT_EQ(take_all(*streaming.source, 2, {5}).failed.size(), 1u);
  EXPECT_EQ(take_all(*streaming.source, 1, first_ids(8)).whole.size(), 8u);
}

TEST(StreamedExperts, ReadDamagedBytesAgainAndGiveUpIfTheyStayDamaged) {
  const std::uint64_t once = NumberedExperts::read_offset_of(1, 2);
  const std::uint64_t always = NumberedExperts::read_offset_of(1, 8);
  const Streaming streaming(slots(2),
                            {.most_microseconds = 0, .fate = [=](std::uint64_t offset, unsigned n) {
                               return (offset == once && n == 0) || offset == always ? SlowIo::kDamaged : 0;
                             }});
  const Taken taken = take_all(*streaming.source, 1, {2, 8, 12});
  EXPECT_EQ(taken.whole, all_of({2, 12}));
  ASSERT_EQ(taken.failed.size(), 1u);
  EXPECT_THAT(taken.failed.at(8), AllOf(HasSubstr("expert 8 of layer 1"), HasSubstr("checksum")));
}

TEST(StreamedExperts, CompareChecksumsAsOftenAsTheyAreTold) {
  const auto checks = [](VerifyReads verify) {
    StreamedOptions options = slots(1);
    options.verify = verify;
    const Streaming streaming(std::move(options));
    for (int token = 0; token < 3; ++token) take_all(*streaming.source, 1, {4, 6});
    return streaming.source->statistics().checked;
  };
  EXPECT_EQ(checks(VerifyReads::kNever), 0u);
  EXPECT_EQ(checks(VerifyReads::kFirst), 2u);
  EXPECT_EQ(checks(VerifyReads::kAlways), 4u);  // the one that was read last is still there
}

TEST(StreamedExperts, SayThatAFileWasCutWhileTheyWereUsingIt) {
  const NumberedExperts own;
  StreamedExperts source(own.open(true), slots(2));
  EXPECT_EQ(take_all(source, 1, {1}).whole.size(), 1u);
  std::filesystem::resize_file(own.file(), NumberedExperts::offset_of(3, 4) + 100);
  const Taken taken = take_all(source, 3, {2, 4});
  EXPECT_EQ(taken.whole, all_of({2}));
  ASSERT_EQ(taken.failed.size(), 1u);
  EXPECT_THAT(taken.failed.at(4), HasSubstr("the file ends before byte"));
}

TEST(StreamedExperts, WorkWithTheRealBackends) {
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kThreads}) {
    StreamedOptions options = slots(5);
    options.make_io = [backend] { return make_async_io(backend); };
    StreamedExperts source(numbered().open(true), std::move(options));
    for (std::uint64_t layer = 1; layer < NumberedExperts::kLayers; ++layer) {
      const Ids all = first_ids(NumberedExperts::kExperts);
      EXPECT_EQ(take_all(source, layer, all).whole, all_of(all));
    }
  }
}

void wait_for_reads(const StreamedExperts& source, std::uint64_t count) {
  for (int i = 0; i < 2000 && source.statistics().reads < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(StreamedExperts, HaveWhatWasForeseenWhenItIsAskedFor) {
  const Streaming streaming(slots(32));
  const Ids foreseen = {9, 3, 27, 14};
  streaming.source->prefetch(2, foreseen);
  wait_for_reads(*streaming.source, 4);
  take_all(*streaming.source, 2, {3, 9, 14, 30});
  const StreamingStatistics s = streaming.source->statistics();
  EXPECT_EQ(s.hits_prefetch, 3u);
  EXPECT_EQ(s.misses, 1u);
  EXPECT_EQ(s.bytes_prefetch > 0, true);
  EXPECT_EQ(s.foreseen, 4u);
  EXPECT_EQ(s.foreseen_needed, 3u);
  EXPECT_EQ(s.foreseen_asked, 4u);
}

TEST(StreamedExperts, DropForesightOnceItsLayerHasCome) {
  StreamedOptions options = slots(64);
  options.reads_per_drive = 1;
  const Streaming streaming(std::move(options), {.most_microseconds = 2000, .fate = {}});
  streaming.source->prefetch(1, first_ids(16));
  const auto lease = streaming.source->acquire(1, Ids{20});
  EXPECT_TRUE(lease->next().has_value());
  // One that had begun may end; the rest is not read any more.
  while (streaming.source->statistics().reading > 0) std::this_thread::yield();
  EXPECT_LE(streaming.io->offsets().size(), 3u);
}

TEST(StreamedExperts, ForeseeNothingWithHardlyAnyMemoryOrWhenToldNotTo) {
  EXPECT_FALSE(Streaming(slots(1)).source->wants_prefetch());
  StreamedOptions options = slots(32);
  options.prefetch = false;
  const Streaming streaming(std::move(options));
  EXPECT_FALSE(streaming.source->wants_prefetch());
  streaming.source->prefetch(1, first_ids(4));
  EXPECT_TRUE(streaming.io->offsets().empty());
}

TEST(StreamedExperts, ReadThePopularSetAheadAndKeepIt) {
  ExpertUsage usage{NumberedExperts::kLayers, NumberedExperts::kExperts, {}};
  usage.rates.resize(NumberedExperts::kLayers * NumberedExperts::kExperts, 0.01F);
  usage.rates[1 * NumberedExperts::kExperts + 17] = 0.9F;
  usage.rates[4 * NumberedExperts::kExperts + 3] = 0.8F;
  StreamedOptions options = slots(34);  // two of them for the popular set
  options.usage = usage;
  const Streaming streaming(std::move(options));
  wait_for_reads(*streaming.source, 2);
  for (const std::uint64_t layer : {2, 3, 2}) take_all(*streaming.source, layer, first_ids(32));
  take_all(*streaming.source, 1, {17});
  take_all(*streaming.source, 4, {3});
  EXPECT_EQ(streaming.source->statistics().hits_pinned, 2u);
}

TEST(StreamedExperts, RefuseUsageOfAnotherModel) {
  StreamedOptions options = slots(4);
  options.usage = {3, 8, std::vector<float>(24, 0.5F)};
  EXPECT_THROW(StreamedExperts(numbered().open(false), std::move(options)), Error);
}

}  // namespace
}  // namespace perigee
