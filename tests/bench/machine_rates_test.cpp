// Measuring a machine: what is read and kept, whatever the rates are.
#include "bench/machine_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/cancel.h"
#include "base/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint64_t kRecord = 8192;

void make_file(const fs::path& path, std::uint64_t bytes) {
  std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
}

TEST(RecordReads, PlacesAreWholeRecordsEachOnce) {
  const test::TempDir folder;
  make_file(folder / "a", 3 * kRecord + 100);
  make_file(folder / "b", 2 * kRecord);
  std::vector<File> files;
  files.push_back(File::open_read(folder / "a"));
  files.push_back(File::open_read(folder / "b"));
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen;
  for (const RecordPlace& place : shuffled_places(files, kRecord)) seen.insert({place.file, place.offset});
  const std::set<std::pair<std::uint32_t, std::uint64_t>> expected = {
      {0, 0}, {0, kRecord}, {0, 2 * kRecord}, {1, 0}, {1, kRecord}};
  EXPECT_EQ(seen, expected);
}

// Counts, and answers on the caller's thread.
class CountingIo : public AsyncIo {
 public:
  void read(int, std::span<std::byte> buffer, std::uint64_t offset, Done done) override {
    offsets.push_back(offset);
    most = std::max(most, ++under_way);
    pending.push_back([done = std::move(done), bytes = buffer.size(), this] {
      --under_way;
      done({error, error == 0 ? bytes : 0});
    });
    if (under_way < depth) return;
    while (!pending.empty()) {
      const auto next = std::move(pending.front());
      pending.erase(pending.begin());
      next();
    }
  }
  void write(int, std::span<const std::byte>, std::uint64_t, Done) override { ADD_FAILURE(); }
  void register_memory(std::span<std::byte>) override {}
  const char* name() const override { return "counting"; }

  unsigned depth = 1, under_way = 0, most = 0;
  int error = 0;
  std::vector<std::uint64_t> offsets;
  std::vector<std::function<void()>> pending;
};

TEST(RecordReads, BeginsWhereTheLastOnesEnded) {
  const test::TempDir folder;
  make_file(folder / "a", 8 * kRecord);
  std::vector<File> files;
  files.push_back(File::open_read(folder / "a"));
  const std::vector<RecordPlace> places = {{0, 0}, {0, kRecord}, {0, 2 * kRecord}};
  CountingIo io;
  std::size_t first = 1;
  EXPECT_GT(read_records(io, {files, places, kRecord}, 1, 0, first).bytes_per_second, 0);
  EXPECT_EQ(first, 2U);
  io.depth = 2;
  EXPECT_EQ(read_records(io, {files, places, kRecord}, 2, 0, first).depth, 2U);
  EXPECT_EQ(io.most, 2U);
  EXPECT_EQ(io.offsets, (std::vector<std::uint64_t>{kRecord, 2 * kRecord, 0}));
}

TEST(RecordReads, AFailedReadNamesTheFile) {
  const test::TempDir folder;
  make_file(folder / "broken", 8 * kRecord);
  std::vector<File> files;
  files.push_back(File::open_read(folder / "broken"));
  const std::vector<RecordPlace> places = {{0, 0}};
  CountingIo io;
  io.error = EIO;
  std::size_t first = 0;
  const RecordReads reads{files, places, kRecord};
  EXPECT_ERROR(read_records(io, reads, 1, 1, first), ErrorCode::kIo, "broken");
}

TEST(DriveRates, TheLargestFileIsRead) {
  const test::TempDir folder;
  make_file(folder / "small", 20 * kRecord);
  make_file(folder / "large", 40 * kRecord);
  const CancelToken never;
  const DriveRates rates = measure_drive(folder.path(), kRecord, 0.01, never);
  EXPECT_EQ(rates.file, folder / "large");
  EXPECT_FALSE(rates.made);
  ASSERT_EQ(rates.depths.size(), 3U);
  EXPECT_EQ(rates.depths[2].depth, 4U);
  for (const DepthRate& rate : rates.depths) EXPECT_GT(rate.bytes_per_second, 0);
}

TEST(DriveRates, WithoutALargeFileOneIsMadeAndRemoved) {
  const test::TempDir folder;
  const CancelToken never;
  const DriveRates rates = measure_drive(folder.path(), kRecord, 0.01, never);
  EXPECT_TRUE(rates.made);
  EXPECT_EQ(fs::directory_iterator(folder.path()), fs::directory_iterator());
}

MachineRates some_rates() {
  MachineRates rates;
  rates.backend = "avx512-bf16";
  rates.threads = 8;
  rates.memory_bytes_per_second = 41.5e9;
  rates.peaks = {{"AVX2 FMA", "avx2", 1e11}, {"BF16 dot", "avx512-bf16", 4e11}};
  rates.bf16 = {33e9, 9e10};
  rates.mxfp4 = {20e9, 8e10};
  rates.drive = {"/models/k3", true, true, "io_uring", 17'547'264, {{1, 3e9, 0.1}, {4, 7e9, 0.05}}};
  return rates;
}

TEST(MachineRates, AreKeptExactly) {
  const std::string text = write_machine_rates(some_rates());
  const MachineRates read = parse_machine_rates(text, "machine.json");
  EXPECT_EQ(write_machine_rates(read), text);
  EXPECT_EQ(read.drive.depths[1].bytes_per_second, 7e9);
  EXPECT_EQ(read.peaks[1].name, "BF16 dot");
}

TEST(MachineRates, RefusesWhatIsNoSuchFile) {
  const std::string good = write_machine_rates(some_rates());
  const auto refuse = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    EXPECT_ERROR(parse_machine_rates(text, "machine.json"), ErrorCode::kCorrupt, "machine.json");
  };
  refuse("\"version\": 1", "\"version\": 2");
  refuse("41500000000.0", "-1");
  refuse("41500000000.0", "\"fast\"");
  refuse("\"depth\": 4", "\"depth\": 1");
  refuse("{", "");
  EXPECT_ERROR(parse_machine_rates("[]", "nothing"), ErrorCode::kCorrupt, "nothing");
}

TEST(MachineRates, MeasuresEveryRate) {
  const test::TempDir folder;
  const CancelToken never;
  MachineRatesOptions options;
  options.folder = folder.path();
  options.record_bytes = kRecord;
  options.memory_bytes = 400'000;
  options.rows = options.columns = 64;
  options.drive_seconds = 0.01;
  options.threads = 1;
  options.backend = "reference";
  const MachineRates rates = measure_machine(options, never);
  EXPECT_EQ(rates.backend, "reference");
  EXPECT_EQ(rates.threads, 1U);
  for (const double rate : {rates.memory_bytes_per_second, rates.bf16.one_token_bytes_per_second,
                            rates.bf16.prompt_macs_per_second, rates.mxfp4.one_token_bytes_per_second,
                            rates.mxfp4.prompt_macs_per_second}) {
    EXPECT_GT(rate, 0);
  }
}

}  // namespace
}  // namespace perigee
