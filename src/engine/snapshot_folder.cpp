#include "engine/snapshot_folder.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = ".snapshot";
constexpr std::string_view kUnfinished = ".snapshot.partial";

std::string name_of(PrefixKey key) {
  return fmt::format("{}-{:016x}{}", key.length, key.hash, kEnd);
}

std::optional<PrefixKey> key_of(std::string_view name) {
  PrefixKey key;
  const char* const end = name.data() + name.size();
  const auto length = std::from_chars(name.data(), end, key.length);
  if (length.ec != std::errc{} || length.ptr == end || *length.ptr != '-') return std::nullopt;
  const auto hash = std::from_chars(length.ptr + 1, end, key.hash, 16);
  if (hash.ec != std::errc{} || name_of(key) != name) return std::nullopt;
  return key;
}

std::uint64_t file_bytes(const Snapshot& snapshot) {
  constexpr std::uint64_t kHeader = 48;  // snapshot_file.cpp
  return kHeader + snapshot.model_fingerprint.size() + snapshot.ids.size() * sizeof(std::uint32_t) +
         snapshot.bytes.size();
}

}  // namespace

SnapshotFolder::SnapshotFolder(const fs::path& folder, std::uint64_t most_bytes)
    : folder_(folder), most_bytes_(most_bytes) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail_errno(error.value(), fmt::format("cannot create the snapshot folder {}", folder_.string()));
  auto lock =
      LockFile::try_take(folder_ / "lock", fmt::format("process {} keeps snapshots here\n", getpid()));
  if (!lock) {
    fail(ErrorCode::kExists, "another process keeps its snapshots in {}; give this one a folder of its own",
         folder_.string());
  }
  lock_ = std::move(*lock);
  try {
    read_names();
  } catch (const fs::filesystem_error& failure) {
    fail_errno(failure.code().value(), fmt::format("cannot read the snapshot folder {}", folder_.string()));
  }
  make_room(0);
  writer_ = std::thread([this] { work(); });
}

SnapshotFolder::~SnapshotFolder() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

fs::path SnapshotFolder::path_of(PrefixKey key) const {
  return folder_ / name_of(key);
}

// Files that were used last have the latest time of modification.
void SnapshotFolder::read_names() {
  std::vector<std::pair<fs::file_time_type, PrefixKey>> found;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_)) {
    const std::string name = file.path().filename().string();
    if (name.ends_with(kUnfinished)) fs::remove(file.path());
    const std::optional<PrefixKey> key = key_of(name);
    if (!key || !file.is_regular_file()) continue;
    found.emplace_back(file.last_write_time(), *key);
    files_[*key].bytes = file.file_size();
    statistics_.bytes += file.file_size();
  }
  std::ranges::sort(found);
  for (const auto& [time, key] : found) files_[key].used = ++clock_;
}

bool SnapshotFolder::contains(PrefixKey key) const {
  const std::scoped_lock lock(mutex_);
  return files_.contains(key) ||
         std::ranges::any_of(waiting_, [&](const Waiting& waiting) { return waiting.key == key; });
}

std::optional<PrefixKey> SnapshotFolder::longest(const PrefixKeys& keys, std::size_t below) const {
  const std::scoped_lock lock(mutex_);
  for (auto place = files_.lower_bound({below, 0}); place != files_.begin();) {
    --place;
    if (place->first == keys.of(place->first.length)) return place->first;
  }
  return std::nullopt;
}

std::shared_ptr<const Snapshot> SnapshotFolder::load(PrefixKey key) {
  try {
    auto snapshot = std::make_shared<const Snapshot>(load_snapshot(path_of(key)));
    std::error_code ignored;  // of a folder that has become read-only
    fs::last_write_time(path_of(key), fs::file_time_type::clock::now(), ignored);
    const std::scoped_lock lock(mutex_);
    if (const auto place = files_.find(key); place != files_.end()) place->second.used = ++clock_;
    return snapshot;
  } catch (const Error& error) {
    log_warning("a snapshot of {} tokens is given up: {}", key.length, error.what());
  }
  const std::scoped_lock lock(mutex_);
  ++statistics_.damaged;
  remove(key);
  return nullptr;
}

void SnapshotFolder::save_later(PrefixKey key, std::shared_ptr<const Snapshot> snapshot) {
  const std::scoped_lock lock(mutex_);
  if (waiting_.size() >= kMostWaiting || file_bytes(*snapshot) > most_bytes_) {
    ++statistics_.failed_writes;
    return;
  }
  waiting_.push_back({key, std::move(snapshot)});
  changed_.notify_all();
}

void SnapshotFolder::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty(); });
}

std::vector<std::shared_ptr<const Snapshot>> SnapshotFolder::unwritten() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<const Snapshot>> snapshots;
  for (const Waiting& waiting : waiting_) snapshots.push_back(waiting.snapshot);
  return snapshots;
}

SnapshotFolder::Statistics SnapshotFolder::statistics() const {
  const std::scoped_lock lock(mutex_);
  Statistics statistics = statistics_;
  statistics.files = files_.size();
  return statistics;
}

void SnapshotFolder::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Waiting waiting = waiting_.front();
    lock.unlock();
    write(waiting);
    lock.lock();
    waiting_.pop_front();
    changed_.notify_all();
  }
}

void SnapshotFolder::write(const Waiting& waiting) {
  const std::uint64_t bytes = file_bytes(*waiting.snapshot);
  {
    const std::scoped_lock lock(mutex_);
    make_room(bytes);
  }
  try {
    save_snapshot(*waiting.snapshot, path_of(waiting.key));
    const std::scoped_lock lock(mutex_);
    Entry& entry = files_[waiting.key];
    statistics_.bytes += bytes - entry.bytes;
    entry = {.bytes = bytes, .used = ++clock_};
  } catch (const std::exception& error) {
    log_warning("the state after {} tokens could not be written: {}", waiting.key.length, error.what());
    const std::scoped_lock lock(mutex_);
    ++statistics_.failed_writes;
  }
}

// Under the lock: until `bytes` more fit.
void SnapshotFolder::make_room(std::uint64_t bytes) {
  while (!files_.empty() && statistics_.bytes + bytes > most_bytes_) {
    const auto oldest =
        std::ranges::min_element(files_, {}, [](const auto& file) { return file.second.used; });
    remove(PrefixKey(oldest->first));
  }
}

// Under the lock.
void SnapshotFolder::remove(PrefixKey key) {
  const auto place = files_.find(key);
  if (place == files_.end()) return;
  std::error_code ignored;  // it will be met again at the next start
  fs::remove(path_of(key), ignored);
  statistics_.bytes -= place->second.bytes;
  files_.erase(place);
}

}  // namespace perigee
