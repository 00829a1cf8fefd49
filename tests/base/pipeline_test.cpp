#include "base/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/stream_writer.h"
#include "support/faulty_io.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

std::vector<std::byte> noise(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = 12345;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// Copies a file in unaligned pieces through the pipeline, as conversion does.
void copy_in_pieces(AsyncIo& io, const File& source, std::uint64_t size, std::uint64_t piece,
                    const std::filesystem::path& to, PipelineOptions options) {
  Pipeline pipeline(io, options);
  StreamWriter writer(io, to, size);
  const std::size_t count = (size + piece - 1) / piece;
  const auto length = [&](std::size_t i) { return std::min(piece, size - i * piece); };
  const auto out = [&](const Task& task) {
    return task.scratch.subspan(StreamWriter::lead_in(task.index * piece), length(task.index));
  };
  pipeline.run(
      count, Pipeline::slot_bytes({{{&source, 4095, piece}}, piece + 4096}),
      [&](std::size_t i) {
        return TaskPlan{{{&source, i * piece, length(i)}}, length(i) + 4096};
      },
      [&](Task& task) { std::memcpy(out(task).data(), task.inputs[0].data(), task.inputs[0].size()); },
      [&](Task& task) { writer.append(out(task), task.slot); });
  writer.finish();
}

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() {
    const File file = File::create(dir_.path() / "source");
    file.write_exact(bytes_, 0);
    source_ = File::open_read(dir_.path() / "source", Caching::kDirect);
  }
  std::string copied() const { return read_small_file(dir_.path() / "copy", 1 << 24); }
  std::string expected() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

  test::TempDir dir_;
  const std::vector<std::byte> bytes_ = noise(3'000'017);
  File source_;
};

TEST_F(PipelineTest, CopiesExactlyWithAnyPieceSizeWorkersAndMemory) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  for (const std::uint64_t piece : {1000, 4096, 65537, 4'000'000}) {
    for (const unsigned workers : {1U, 3U}) {
      for (const std::uint64_t memory : {1ULL, 64ULL << 20}) {
        PipelineOptions options{workers, 2, memory, nullptr};
        copy_in_pieces(*io, source_, bytes_.size(), piece, dir_.path() / "copy", options);
        ASSERT_EQ(copied(), expected()) << piece << " " << workers << " " << memory;
      }
    }
  }
}

// An error at any single transfer surfaces as an Error that names the file, and leaves no output behind.
TEST_F(PipelineTest, ReportsAnErrorAtEveryTransferAndLeavesNothingBehind) {
  for (const int error : {EIO, ENOSPC}) {
    for (std::uint64_t failing = 0;; ++failing) {
      test::FaultyIo io(make_async_io(IoBackend::kThreads));
      io.fail_transfer(failing, error);
      try {
        copy_in_pieces(io, source_, bytes_.size(), 500'000, dir_.path() / "copy", {2, 3, 1 << 24, nullptr});
        EXPECT_EQ(copied(), expected());
        EXPECT_GT(failing, 12U);  // every read and every write had its turn
        break;
      } catch (const Error& failure) {
        EXPECT_EQ(failure.code(), error == EIO ? ErrorCode::kIo : ErrorCode::kNoSpace);
        EXPECT_NE(std::string(failure.what()).find(dir_.path().string()), std::string::npos)
            << failure.what();
        EXPECT_FALSE(std::filesystem::exists(dir_.path() / "copy"));
      }
    }
    std::filesystem::remove(dir_.path() / "copy");
  }
}

TEST_F(PipelineTest, NoticesAFileThatEndsTooEarly) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  try {
    copy_in_pieces(*io, source_, bytes_.size() + 1, 1'000'000, dir_.path() / "copy", {});
    FAIL() << "a byte that is not there was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  }
}

TEST(Pipeline, RetiresInOrderWhateverTheOrderOfComputing) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  Pipeline pipeline(*io, {4, 4, 1 << 20, nullptr});
  std::vector<std::size_t> retired;
  pipeline.run(
      200, 4096,
      [](std::size_t) {
        return TaskPlan{{}, 64};
      },
      [](Task& task) {
        if (task.index % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        task.scratch[0] = static_cast<std::byte>(task.index);
      },
      [&](Task& task) {
        EXPECT_EQ(task.scratch[0], static_cast<std::byte>(task.index));
        retired.push_back(task.index);
      });
  ASSERT_EQ(retired.size(), 200U);
  EXPECT_TRUE(std::is_sorted(retired.begin(), retired.end()));
}

// The first exception of any of the three functions ends the run, and the pipeline can be used again.
TEST(Pipeline, RethrowsWhatPlanComputeOrRetireThrow) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  Pipeline pipeline(*io, {2, 2, 1 << 20, nullptr});
  for (int where = 0; where < 3; ++where) {
    const auto maybe_fail = [where](int here, std::size_t index) {
      if (here == where && index == 13) fail(ErrorCode::kUnsupported, "planted in {}", here);
    };
    try {
      pipeline.run(
          50, 4096,
          [&](std::size_t i) {
            maybe_fail(0, i);
            return TaskPlan{{}, 8};
          },
          [&](Task& task) { maybe_fail(1, task.index); }, [&](Task& task) { maybe_fail(2, task.index); });
      FAIL() << "nothing was thrown from " << where;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), fmt::format("planted in {}", where));
    }
  }
  std::atomic<int> computed = 0;
  pipeline.run(
      5, 4096,
      [](std::size_t) {
        return TaskPlan{{}, 8};
      },
      [&](Task&) { ++computed; }, [](Task&) {});
  EXPECT_EQ(computed, 5);
}

TEST(Pipeline, RefusesAPlanThatNeedsMoreThanASlot) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  Pipeline pipeline(*io, {});
  EXPECT_THROW(pipeline.run(
                   1, 4096,
                   [](std::size_t) {
                     return TaskPlan{{}, 5000};
                   },
                   [](Task&) {}, [](Task&) {}),
               Error);
}

TEST(Pipeline, StopsWhenCancelled) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  CancelToken cancel;
  Pipeline pipeline(*io, {2, 2, 1 << 20, &cancel});
  std::size_t retired = 0;
  try {
    pipeline.run(
        1'000'000, 4096,
        [](std::size_t) {
          return TaskPlan{{}, 8};
        },
        [](Task&) {},
        [&](Task&) {
          if (++retired == 100) cancel.cancel();
        });
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
  EXPECT_LT(retired, 200U);
}

TEST(Pipeline, GivesAHandleThatIsNotEmpty) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  Pipeline pipeline(*io, {});
  pipeline.run(
      1, 4096,
      [](std::size_t) {
        return TaskPlan{{}, 8};
      },
      [](Task&) {}, [](Task& task) { EXPECT_NE(task.slot, nullptr); });
}

// A slot whose handle was kept (a write under way) is not given to another task.
TEST(Pipeline, DoesNotReuseASlotWhoseHandleIsAlive) {
  const std::unique_ptr<AsyncIo> io = make_async_io();
  Pipeline pipeline(*io, {1, 1, 2 * 4096, nullptr});
  std::shared_ptr<void> held;
  const std::byte* held_memory = nullptr;
  pipeline.run(
      20, 4096,
      [](std::size_t) {
        return TaskPlan{{}, 8};
      },
      [](Task&) {},
      [&](Task& task) {
        if (task.index == 0) {
          held = task.slot;
          held_memory = task.scratch.data();
        } else {
          EXPECT_NE(task.scratch.data(), held_memory);
        }
        if (task.index == 19) held.reset();
      });
}

}  // namespace
}  // namespace perigee
