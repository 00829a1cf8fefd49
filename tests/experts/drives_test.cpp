// Experts from several drives: one that is slow holds up its own experts only, one that goes loses its own
// experts only, and says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "experts/numbered_experts.h"
#include "experts/slow_io.h"
#include "experts/streamed_experts.h"
#include "experts/two_drives.h"

namespace perigee {
namespace {

using test::NumberedExperts;
using test::SlowIo;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Even experts lie on the first drive, odd ones on the other.
class TwoDrives : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!drive_.usable()) GTEST_SKIP() << "there is no second file system";
    std::filesystem::copy_file(numbered_.file(), drive_.path() / "experts");
  }

  StreamedExperts& stream(std::size_t slots) {
    StreamedOptions options;
    options.slots = slots;
    options.make_io = [this] {
      auto slow = std::make_unique<SlowIo>(SlowIo::Plan{
          .drive = [this](dev_t device) { return device == drive_.device() ? mood_.load() : 0; }});
      io_ = slow.get();
      return slow;
    };
    source_ = std::make_unique<StreamedExperts>(numbered_.open_with(drive_.path() / "experts"), options);
    return *source_;
  }

  static std::vector<std::uint32_t> ids(std::uint32_t begin, std::uint32_t end) {
    std::vector<std::uint32_t> ids;
    for (std::uint32_t i = begin; i < end; ++i) ids.push_back(i);
    return ids;
  }

  // Of experts that are all there: how many.
  static std::size_t take_all(ExpertSource& source, std::uint64_t layer,
                              const std::vector<std::uint32_t>& wanted) {
    const auto lease = source.acquire(layer, wanted);
    std::size_t count = 0;
    while (const auto arrived = lease->next()) {
      EXPECT_TRUE(test::is_run_of(arrived->weights, layer, wanted[arrived->index]));
      ++count;
    }
    return count;
  }

  const NumberedExperts numbered_;
  const test::OtherDrive drive_;
  std::atomic<int> mood_ = 0;  // of the other drive
  SlowIo* io_ = nullptr;
  std::unique_ptr<StreamedExperts> source_;
};

TEST_F(TwoDrives, GiveEveryExpertFromAnyNumberOfSlots) {
  for (const std::size_t slots : {1, 2, 5, 128}) {
    StreamedExperts& source = stream(slots);
    for (std::uint64_t layer = 1; layer < NumberedExperts::kLayers; ++layer)
      EXPECT_EQ(take_all(source, layer, ids(0, 32)), 32u);
  }
}

// While the other drive answers nothing at all. With four slots a drive could hold all of them.
TEST_F(TwoDrives, ASlowOneHoldsUpItsOwnExpertsOnly) {
  for (const std::size_t slots : {4, 5, 32}) {
    mood_ = SlowIo::kHeld;
    StreamedExperts& source = stream(slots);
    const auto wanted = ids(0, 16);
    const auto lease = source.acquire(2, wanted);
    for (int i = 0; i < 8; ++i) {
      const auto arrived = lease->next();
      ASSERT_TRUE(arrived);
      EXPECT_EQ(wanted[arrived->index] % 2, 0u) << slots << " slots";
      EXPECT_TRUE(test::is_run_of(arrived->weights, 2, wanted[arrived->index]));
    }
    mood_ = 0;
    io_->release();
    for (int i = 0; i < 8; ++i) {
      const auto arrived = lease->next();
      ASSERT_TRUE(arrived);
      EXPECT_EQ(wanted[arrived->index] % 2, 1u) << slots << " slots";
    }
    EXPECT_FALSE(lease->next());
  }
}

TEST_F(TwoDrives, OneThatVanishesLosesItsOwnExpertsOnlyAndIsNamed) {
  StreamedExperts& source = stream(40);
  const auto wanted = ids(0, 32);
  for (const int error : {EIO, ENODEV}) {
    mood_ = error;
    std::set<std::uint32_t> whole;
    std::map<std::uint32_t, std::string> lost;
    const std::uint64_t layer = error == EIO ? 1 : 2;
    const auto lease = source.acquire(layer, wanted);
    for (bool more = true; more;) {
      try {
        const auto arrived = lease->next();
        more = arrived.has_value();
        if (more) whole.insert(wanted[arrived->index]);
      } catch (const ExpertUnavailable& failure) {
        EXPECT_EQ(failure.code(), ErrorCode::kIo);
        lost[wanted[failure.index()]] = failure.what();
      }
    }
    EXPECT_EQ(whole.size(), 16u);
    EXPECT_EQ(lost.size(), 16u);
    for (const auto& [expert, sentence] : lost) {
      EXPECT_EQ(expert % 2, 1u);
      EXPECT_THAT(sentence,
                  AllOf(HasSubstr((drive_.path() / "experts").string()), HasSubstr(strerror(error))));
    }
    EXPECT_THAT(lost.at(31), HasSubstr("from the drive of " + drive_.path().string() + " were lost"));
  }
}

TEST_F(TwoDrives, OneThatIsGoneIsNotAskedThreeTimesForEveryExpert) {
  StreamedExperts& source = stream(40);
  mood_ = ENODEV;
  const auto wanted = ids(0, 32);
  const auto lease = source.acquire(1, wanted);
  for (int i = 0; i < 33; ++i) {
    try {
      lease->next();
    } catch (const ExpertUnavailable&) {
    }
  }
  const StreamingStatistics s = source.statistics();
  EXPECT_EQ(s.failures, 16u);
  EXPECT_GE(s.retries, 4 * 2u);  // of those before it is known
  EXPECT_LE(s.retries, 7 * 2u);  // and of three that were under way then
}

TEST_F(TwoDrives, OneThatComesBackIsUsedAsBefore) {
  StreamedExperts& source = stream(8);
  mood_ = EIO;
  const auto lost = ids(0, 32);
  {
    const auto lease = source.acquire(1, lost);
    for (int i = 0; i < 33; ++i) {
      try {
        lease->next();
      } catch (const ExpertUnavailable&) {
      }
    }
  }
  mood_ = 0;
  for (std::uint64_t layer = 1; layer < NumberedExperts::kLayers; ++layer)
    EXPECT_EQ(take_all(source, layer, ids(0, 32)), 32u);
}

}  // namespace
}  // namespace perigee
