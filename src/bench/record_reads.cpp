#include "bench/record_reads.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>

#include "base/disk_rate.h"
#include "base/error.h"
#include "base/progress.h"
#include "bench/statistics.h"
#include "bench/stopwatch.h"
#include "experts/slot_pool.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kDepths[] = {1, 2, 4};
constexpr unsigned kRounds = 3;              // of every depth, in turn
constexpr std::uint64_t kLeastRecords = 16;  // that a file must have to say something
constexpr std::uint64_t kMadeRecords = 64;   // of a file that is made
constexpr std::uint64_t kKeepFree = 1'000'000'000;

// Keeps `depth` reads under way until the time is over.
class Reading {
 public:
  Reading(AsyncIo& io, const RecordReads& reads, unsigned depth, std::size_t first)
      : io_(io), reads_(reads), pool_(depth, reads.record_bytes, false), next_(first) {
    io_.register_memory(pool_.memory());
  }
  ~Reading() { io_.register_memory({}); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void run(double seconds) {
    end_ = clock_seconds(CLOCK_MONOTONIC) + seconds;
    {
      const std::scoped_lock lock(mutex_);
      under_way_ = pool_.slots();
    }
    for (std::size_t slot = 0; slot < pool_.slots(); ++slot) start(slot);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return under_way_ == 0; });
    if (error_ != 0) {
      fail(ErrorCode::kIo, "cannot read {}: {}", reads_.files[failed_file_].path().string(),
           std::strerror(error_));
    }
  }

  std::uint64_t bytes() const { return bytes_; }
  std::size_t next() const { return next_; }

 private:
  void start(std::size_t slot) {
    RecordPlace place;
    {
      const std::scoped_lock lock(mutex_);
      place = reads_.places[next_++ % reads_.places.size()];
    }
    io_.read(reads_.files[place.file].fd(), {pool_.slot(slot), reads_.record_bytes}, place.offset,
             [this, slot, place](IoResult result) { finish(slot, place, result); });
  }

  void finish(std::size_t slot, const RecordPlace& place, IoResult result) {
    {
      const std::scoped_lock lock(mutex_);
      bytes_ += result.bytes;
      if (result.error != 0 && error_ == 0) {
        error_ = result.error;
        failed_file_ = place.file;
      }
      if (error_ != 0 || clock_seconds(CLOCK_MONOTONIC) >= end_) {
        --under_way_;
        changed_.notify_one();  // with the lock held: whoever waits destroys us
        return;
      }
    }
    start(slot);
  }

  AsyncIo& io_;
  const RecordReads& reads_;
  SlotPool pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  double end_ = 0;
  std::size_t next_;
  std::size_t under_way_ = 0;
  std::uint64_t bytes_ = 0;
  int error_ = 0;
  std::uint32_t failed_file_ = 0;
};

// The largest file here, nothing if none holds enough records.
fs::path largest_file(const fs::path& folder, std::uint64_t record_bytes) {
  fs::path largest;
  std::uint64_t most = kLeastRecords * record_bytes - 1;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || ::access(entry->path().c_str(), R_OK) != 0) continue;
    const std::uint64_t size = entry->file_size(ignored);
    if (ignored || size <= most) continue;
    most = size;
    largest = entry->path();
  }
  return largest;
}

// A file of noise that goes away with its owner.
class MadeFile {
 public:
  MadeFile(const fs::path& folder, std::uint64_t record_bytes, const CancelToken& cancel)
      : path_(folder / fmt::format(".perigee-records-{}.partial", ::getpid())) {
    const std::uint64_t available = free_bytes(folder);
    const std::uint64_t room = (available - std::min(available, kKeepFree)) / record_bytes;
    if (room < kLeastRecords) {
      fail(ErrorCode::kNoSpace, "{} has only {} free, too little to measure its drive; give another folder",
           folder.string(), format_bytes(available));
    }
    try {
      write(std::min(room, kMadeRecords), record_bytes, cancel);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~MadeFile() { remove(); }
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  void write(std::uint64_t records, std::uint64_t record_bytes, const CancelToken& cancel) const {
    const SlotPool pool(1, record_bytes, false);
    std::mt19937_64 random(1);  // nothing that a drive could compress
    const auto words = pool.memory().size() / sizeof(std::uint64_t);
    auto* out = reinterpret_cast<std::uint64_t*>(pool.memory().data());
    std::generate(out, out + words, std::ref(random));
    const File file = File::create(path_, Caching::kDirect);
    for (std::uint64_t record = 0; record < records; ++record) {
      cancel.check();
      file.write_exact({pool.slot(0), record_bytes}, record * record_bytes);
    }
    file.sync();
    file.drop_cache();
  }
  void remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path path_;
};

}  // namespace

DepthRate read_records(AsyncIo& io, const RecordReads& reads, unsigned depth, double seconds,
                       std::size_t& first) {
  Reading reading(io, reads, depth, first);
  double wall = 0;
  const double cpu = cpu_seconds([&] { wall = wall_seconds([&] { reading.run(seconds); }); });
  first = reading.next();
  const auto bytes = static_cast<double>(reading.bytes());
  return {depth, bytes / wall, bytes > 0 ? cpu / (bytes / 1e9) : 0};
}

std::vector<RecordPlace> shuffled_places(std::span<const File> files, std::uint64_t record_bytes) {
  std::vector<RecordPlace> places;
  for (std::uint32_t i = 0; i < files.size(); ++i) {
    const std::uint64_t records = files[i].size() / record_bytes;
    for (std::uint64_t record = 0; record < records; ++record) places.push_back({i, record * record_bytes});
  }
  std::mt19937_64 random(1);
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[random() % i]);
  return places;
}

DriveRates measure_drive(const fs::path& folder, std::uint64_t record_bytes, double seconds,
                         const CancelToken& cancel) {
  const std::uint64_t bytes = align_up(record_bytes, kDirectAlignment);
  std::optional<MadeFile> made;
  fs::path path = largest_file(folder, bytes);
  if (path.empty()) path = made.emplace(existing_folder(folder), bytes, cancel).path();
  std::vector<File> files;
  files.push_back(File::open_read(path, Caching::kDirect));
  const std::vector<RecordPlace> places = shuffled_places(files, bytes);
  const RecordReads reads{files, places, bytes};
  const std::unique_ptr<AsyncIo> io = make_async_io();
  DriveRates rates{path, made.has_value(), files.front().is_direct(), io->name(), bytes, {}};
  std::array<std::vector<double>, std::size(kDepths)> rates_of, cpu_of;
  std::size_t first = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < std::size(kDepths); ++i) {
      cancel.check();
      const DepthRate rate =
          read_records(*io, reads, kDepths[i], seconds / (kRounds * std::size(kDepths)), first);
      rates_of[i].push_back(rate.bytes_per_second);
      cpu_of[i].push_back(rate.cpu_seconds_per_gigabyte);
    }
  }
  for (std::size_t i = 0; i < std::size(kDepths); ++i)
    rates.depths.push_back({kDepths[i], median(rates_of[i]), median(cpu_of[i])});
  return rates;
}

}  // namespace perigee
