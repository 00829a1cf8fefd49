// Snapshots of prefixes, in memory and in a folder (docs/scheduling.md), so that a conversation's next turn
// does not read its past again. A snapshot serves exactly the ids, images and model that it was taken of; the
// longest that fits wins. Files are written beside the work and survive the process, even a killed one,
// except the one being written. Deliberately no partial reuse: KDA state cannot be rolled back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace perigee {

struct PrefixCacheOptions {
  // Of all snapshots in memory: those that are kept, and those that only wait to be written; 0: none are
  // kept. Beyond it there is one more while a snapshot is being taken or read, and what waits for a slow
  // disk, which is four at most.
  std::uint64_t memory_bytes = 0;
  std::filesystem::path folder;    // empty: no files
  std::uint64_t folder_bytes = 0;  // of the snapshots in it
};

struct PrefixCacheStatistics {
  std::size_t in_memory = 0;          // kept
  std::uint64_t memory_bytes = 0;     // of those
  std::uint64_t unwritten_bytes = 0;  // of snapshots that are not kept in memory but wait to be written
  std::size_t in_folder = 0;
  std::uint64_t folder_bytes = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t damaged = 0;        // files that were deleted because they could not be used
  std::uint64_t failed_writes = 0;  // the snapshot stayed in memory only
};

// All methods may be called from any thread.
class PrefixCache {
 public:
  // Keeps a reference to the config. Creates the folder; kExists if another process uses it.
  PrefixCache(const K3Config& config, std::string model_fingerprint, PrefixCacheOptions options);
  virtual ~PrefixCache();  // finishes the files that wait to be written
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Whether find() has anything to look at; takes no longer than a pass over the ids. False counts as a miss.
  bool knows_prefix(const GenerationRequest& request);

  // The state after the longest known proper prefix of the prompt, with the prompt's images. What turns out
  // to be damaged is deleted and the next shorter one is taken. Reads files and copies states, so it may take
  // seconds. Virtual, so that tests can make it slow.
  virtual std::optional<SequenceState> find(const GenerationRequest& request);

  // Whether a snapshot of the first `position` ids of the prompt is known.
  bool contains(const GenerationRequest& request, std::size_t position) const;

  // Keeps the state of the ids computed so far. Older ones make room; one too large for both places is
  // dropped.
  void keep(const Sequence& sequence);

  void wait_for_files();
  PrefixCacheStatistics statistics() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
