#include "base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace perigee {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint64_t kGiga = 1'000'000'000;

// Until the writing end is closed (a terminal then gives EIO).
std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t n = 0; (n = ::read(fd, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
  return text;
}

// Everything that `work(progress)` prints to a pipe.
template <typename Work>
std::string printed_to_pipe(ProgressStyle style, std::uint64_t total, Work work) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  std::FILE* stream = ::fdopen(ends[1], "w");
  {
    Progress progress("convert", total, style, stream);
    work(progress);
  }
  std::fclose(stream);
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  return text;
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

void wait_for_redraw() {
  std::this_thread::sleep_for(std::chrono::milliseconds(230));
}

TEST(FormatBytes, UsesDecimalUnitsAndThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(9'994), "9.99 kB");
  EXPECT_EQ(format_bytes(9'996), "10.0 kB");
  EXPECT_EQ(format_bytes(99'940), "99.9 kB");
  EXPECT_EQ(format_bytes(99'960), "100 kB");
  EXPECT_EQ(format_bytes(999'499), "999 kB");
  EXPECT_EQ(format_bytes(999'500), "1.00 MB");
  EXPECT_EQ(format_bytes(17'900'000'000), "17.9 GB");
  EXPECT_EQ(format_bytes(1'560'000'000'000), "1.56 TB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "18.4 EB");
}

TEST(FormatDuration, GrowsFromSecondsToHours) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(12.34), "12.3 s");
  EXPECT_EQ(format_duration(59.94), "59.9 s");
  EXPECT_EQ(format_duration(59.96), "1m 00s");
  EXPECT_EQ(format_duration(250), "4m 10s");
  EXPECT_EQ(format_duration(3599.4), "59m 59s");
  EXPECT_EQ(format_duration(3599.6), "1h 00m");
  EXPECT_EQ(format_duration(3 * 3600 + 125), "3h 02m");
  EXPECT_EQ(format_duration(250'000), "69h 26m");
}

TEST(FormatDuration, SaysSoWhenItDoesNotKnow) {
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "?");
  EXPECT_EQ(format_duration(-1), "?");
}

TEST(Progress, IsSilentOnAPipe) {
  const std::string text = printed_to_pipe(ProgressStyle::kAuto, 100, [](Progress& progress) {
    progress.add(50);
    wait_for_redraw();
    progress.add(50);
    progress.finish();
  });
  EXPECT_EQ(text, "");
}

TEST(Progress, IsSilentWhenItIsOff) {
  const std::string text = printed_to_pipe(ProgressStyle::kOff, 100, [](Progress& progress) {
    wait_for_redraw();
    progress.add(100);
    progress.finish();
  });
  EXPECT_EQ(text, "");
}

TEST(Progress, WritesOneJsonObjectPerLine) {
  const std::string text = printed_to_pipe(ProgressStyle::kJson, 400, [](Progress& progress) {
    progress.add_skipped(100);
    progress.set_detail("shard 1/4");
    wait_for_redraw();
    progress.add(50);
    progress.add(250);
    progress.finish();
  });
  const std::vector<nlohmann::json> lines = json_lines(text);
  ASSERT_EQ(lines.size(), 2u) << text;
  EXPECT_EQ(lines[0]["event"], "progress");
  EXPECT_EQ(lines[0]["label"], "convert");
  EXPECT_EQ(lines[0]["done"], 150);
  EXPECT_EQ(lines[0]["total"], 400);
  EXPECT_EQ(lines[0]["detail"], "shard 1/4");
  EXPECT_EQ(lines[1]["done"], 400);
  EXPECT_EQ(lines[1]["eta_seconds"], 0.0);
}

TEST(Progress, CountsSkippedBytesForTheTotalButNotForTheRate) {
  const std::string text = printed_to_pipe(ProgressStyle::kJson, 2 * kGiga, [](Progress& progress) {
    progress.add_skipped(kGiga);
    wait_for_redraw();
    progress.add(1000);
    progress.finish();
  });
  const nlohmann::json last = json_lines(text).back();
  EXPECT_EQ(last["done"], kGiga + 1000);
  // 1000 bytes in at least 0.2 s: a rate that counted the skipped bytes would be a million times larger.
  EXPECT_LE(last["bytes_per_second"], 5000);
  EXPECT_GT(last["bytes_per_second"], 0);
  EXPECT_GE(last["eta_seconds"], (kGiga - 1000) / 5000.0);
}

TEST(Progress, KnowsNoTimeLeftBeforeTheFirstByte) {
  const std::string text =
      printed_to_pipe(ProgressStyle::kJson, 100, [](Progress& progress) { progress.finish(); });
  const std::vector<nlohmann::json> lines = json_lines(text);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0]["eta_seconds"].is_null());
}

TEST(Progress, KeepsQuotesAndControlCharactersOutOfItsJson) {
  const std::string text = printed_to_pipe(ProgressStyle::kJson, 1, [](Progress& progress) {
    progress.set_detail("a \"b\" \\ c\n\td");
    progress.finish();
  });
  const std::vector<nlohmann::json> lines = json_lines(text);
  ASSERT_EQ(lines.size(), 1u) << text;
  EXPECT_THAT(lines[0]["detail"].get<std::string>(), StartsWith("a \"b\" \\ c"));
}

TEST(Progress, PrintsAtMostFiveTimesASecond) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = printed_to_pipe(ProgressStyle::kJson, 20'000, [](Progress& progress) {
    for (int i = 0; i < 20'000; ++i) progress.add(1);
    progress.finish();
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(static_cast<double>(json_lines(text).size()), 1 + 5 * seconds);
}

TEST(Progress, LosesNoByteOfManyThreads) {
  const std::string text = printed_to_pipe(ProgressStyle::kJson, 40'000, [](Progress& progress) {
    std::vector<std::thread> workers;
    for (int w = 0; w < 4; ++w) {
      workers.emplace_back([&progress] {
        for (int i = 0; i < 10'000; ++i) progress.add(1);
      });
    }
    for (std::thread& worker : workers) worker.join();
    progress.finish();
  });
  EXPECT_EQ(json_lines(text).back()["done"], 40'000);
}

TEST(Progress, FinishesOnce) {
  const std::string text = printed_to_pipe(ProgressStyle::kJson, 1, [](Progress& progress) {
    progress.finish();
    progress.finish();
  });
  EXPECT_EQ(json_lines(text).size(), 1u);
}

TEST(Progress, RedrawsOneLineOnATerminal) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  std::FILE* stream = std::fopen(::ptsname(terminal), "w");
  ASSERT_NE(stream, nullptr);
  {
    Progress progress("convert", 2 * kGiga, ProgressStyle::kAuto, stream);
    progress.set_detail("shard 1/2");
    wait_for_redraw();
    progress.add(kGiga);
    progress.add(kGiga);
    progress.finish();
  }
  std::fclose(stream);
  const std::string text = read_all(terminal);
  ::close(terminal);
  EXPECT_THAT(text, StartsWith("\r\033[Kconvert  50.0 %  1.00 GB / 2.00 GB"));
  EXPECT_THAT(text, HasSubstr("\r\033[Kconvert 100.0 %  2.00 GB / 2.00 GB"));
  EXPECT_THAT(text, HasSubstr("shard 1/2"));
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line, ended once";
}

}  // namespace
}  // namespace perigee
