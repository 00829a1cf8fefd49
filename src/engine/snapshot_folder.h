// Snapshots in a folder, one file each, named by what they are of. They are written beside the work by a
// thread of its own, and the least recently used make room. Every file is whole or not there: a name without
// its end
// (.partial) is what a killed process left and is deleted at the next start.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/lock_file.h"
#include "engine/prefix_key.h"
#include "engine/snapshot.h"

namespace perigee {

class SnapshotFolder {
 public:
  struct Statistics {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
    std::uint64_t damaged = 0;
    std::uint64_t failed_writes = 0;
  };

  // Creates the folder; kExists if another process uses it. Looks at names and sizes only.
  SnapshotFolder(const std::filesystem::path& folder, std::uint64_t most_bytes);
  ~SnapshotFolder();  // finishes what waits to be written
  SnapshotFolder(const SnapshotFolder&) = delete;
  SnapshotFolder& operator=(const SnapshotFolder&) = delete;

  bool contains(PrefixKey key) const;  // or is about to
  // The longest of fewer than `below` ids.
  std::optional<PrefixKey> longest(const PrefixKeys& keys, std::size_t below) const;

  // Nothing if it is gone, or damaged: then it is deleted.
  std::shared_ptr<const Snapshot> load(PrefixKey key);
  // Dropped if too many wait already: the disk does not keep up, and memory is not for waiting.
  void save_later(PrefixKey key, std::shared_ptr<const Snapshot> snapshot);

  void wait();  // until nothing waits to be written
  // What waits or is being written, at most kMostWaiting.
  std::vector<std::shared_ptr<const Snapshot>> unwritten() const;
  Statistics statistics() const;

 private:
  static constexpr std::size_t kMostWaiting = 4;
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;  // larger: more recently
  };
  struct Waiting {
    PrefixKey key;
    std::shared_ptr<const Snapshot> snapshot;
  };

  std::filesystem::path path_of(PrefixKey key) const;
  void read_names();
  void work();
  void write(const Waiting& waiting);
  void make_room(std::uint64_t bytes);
  void remove(PrefixKey key);

  const std::filesystem::path folder_;
  const std::uint64_t most_bytes_;
  LockFile lock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<PrefixKey, Entry> files_;
  std::deque<Waiting> waiting_;  // the first one is being written
  Statistics statistics_;
  std::uint64_t clock_ = 0;
  bool stopping_ = false;
  std::thread writer_;  // last, because it uses all the others
};

}  // namespace perigee
