// Both backends of base/async_io.h, held to the same behaviour.
#include "base/async_io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

// Counts completions and lets the test wait for them.
class Completions {
 public:
  AsyncIo::Done counter() {
    return [this](IoResult result) {
      const std::scoped_lock lock(mutex_);
      results_.push_back(result);
      changed_.notify_all();
    };
  }
  std::vector<IoResult> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_.size() >= count; });
    return results_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<IoResult> results_;
};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 131 + (i >> 8));
  return bytes;
}

class AsyncIoTest : public testing::TestWithParam<IoBackend> {
 protected:
  void SetUp() override {
    try {
      io_ = make_async_io(GetParam(), 4);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  test::TempDir dir_;
  std::unique_ptr<AsyncIo> io_;
};

TEST_P(AsyncIoTest, WritesAndReadsBackManyPiecesMoreThanItsDepth) {
  const std::vector<std::byte> bytes = pattern(1 << 20);
  const File file = File::create(dir_.path() / "f");
  constexpr std::size_t kPiece = 10007;
  Completions written;
  std::size_t pieces = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece, ++pieces) {
    io_->write(file.fd(), std::span(bytes).subspan(at, std::min(kPiece, bytes.size() - at)), at,
               written.counter());
  }
  for (const IoResult& result : written.wait_for(pieces)) EXPECT_EQ(result.error, 0);
  std::vector<std::byte> again(bytes.size());
  Completions read;
  io_->read(file.fd(), again, 0, read.counter());
  EXPECT_EQ(read.wait_for(1)[0].bytes, bytes.size());
  EXPECT_EQ(again, bytes);
}

TEST_P(AsyncIoTest, ReadsIntoRegisteredMemory) {
  const std::vector<std::byte> bytes = pattern(64 << 10);
  const File file = File::create(dir_.path() / "f");
  file.write_exact(bytes, 0);
  std::vector<std::byte> memory(bytes.size());
  io_->register_memory(memory);
  Completions read;
  io_->read(file.fd(), std::span(memory).first(1000), 5, read.counter());
  io_->read(file.fd(), std::span(memory).subspan(1000), 1005, read.counter());
  read.wait_for(2);
  io_->register_memory({});
  EXPECT_EQ(std::memcmp(memory.data(), bytes.data() + 5, bytes.size() - 5), 0);
}

TEST_P(AsyncIoTest, ReportsHowMuchWasThereWhenTheFileIsTooShort) {
  const File file = File::create(dir_.path() / "f");
  file.write_exact(pattern(1000), 0);
  std::vector<std::byte> buffer(4096);
  Completions read;
  io_->read(file.fd(), buffer, 0, read.counter());
  const IoResult result = read.wait_for(1)[0];
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(result.bytes, 1000U);
}

TEST_P(AsyncIoTest, ReportsTheErrorOfABadDescriptor) {
  std::vector<std::byte> buffer(16);
  Completions done;
  io_->read(-1, buffer, 0, done.counter());
  EXPECT_EQ(done.wait_for(1)[0].error, EBADF);
}

TEST_P(AsyncIoTest, FinishesEverythingBeforeItDies) {
  const std::vector<std::byte> bytes = pattern(1 << 16);
  const File file = File::create(dir_.path() / "f");
  Completions done;
  for (int i = 0; i < 50; ++i)
    io_->write(file.fd(), bytes, static_cast<std::uint64_t>(i) * bytes.size(), done.counter());
  io_.reset();
  EXPECT_EQ(done.wait_for(50).size(), 50U);
  EXPECT_EQ(file.size(), 50 * bytes.size());
}

TEST_P(AsyncIoTest, FinishesWhatIsStartedByAReadThatComesBackWhileItDies) {
  const File file = File::create(dir_.path() / "f");
  std::vector<std::byte> buffer(16);
  std::atomic<int> ended{0};
  AsyncIo* const io = io_.get();
  io->read(file.fd(), buffer, 0, [&](IoResult) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // by now it is being destroyed
    io->read(file.fd(), buffer, 0, [&](IoResult) { ++ended; });
    ++ended;
  });
  io_.reset();
  EXPECT_EQ(ended, 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, AsyncIoTest, testing::Values(IoBackend::kUring, IoBackend::kThreads),
                         [](const auto& param_info) {
                           return std::string(param_info.param == IoBackend::kUring ? "Uring" : "Threads");
                         });

TEST(AsyncIo, AutoAlwaysFindsABackend) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  EXPECT_TRUE(std::string(io->name()) == "io_uring" || std::string(io->name()) == "threads");
}

}  // namespace
}  // namespace perigee
