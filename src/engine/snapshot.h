// A sequence's state in memory or in a file, bound to the exact ids that led to it. KDA state cannot be
// rolled back, so a snapshot is only ever restored for its own prefix. Deliberately no cache: which snapshots
// are kept, and where, is decided by the caller; ids that stand for images are bound by the caller's
// fingerprint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "model/forward.h"
#include "model/state.h"

namespace perigee {

struct Snapshot {
  std::vector<std::uint32_t> ids;          // the whole prefix
  std::string model_fingerprint;           // of the checkpoint and precision it belongs to
  Precision precision = Precision::kBf16;  // of the latent caches
  std::vector<std::byte> bytes;            // the state: layer after layer, little-endian
  std::uint64_t checksum = 0;              // snapshot_checksum() when it was taken
};

// XXH3-64 of the lengths and contents of all but `checksum`.
std::uint64_t snapshot_checksum(const Snapshot& snapshot);

// Bytes of the state that a snapshot of it would have.
std::uint64_t snapshot_bytes(const SequenceState& state);

// `ids` are those that led to the state, all of them.
Snapshot take_snapshot(const SequenceState& state, std::span<const std::uint32_t> ids,
                       const std::string& model_fingerprint);

// kMismatch if `ids` are not the snapshot's or the model is another, kCorrupt if the bytes are damaged.
SequenceState restore_snapshot(const Snapshot& snapshot, const K3Config& config,
                               std::span<const std::uint32_t> ids, const std::string& model_fingerprint);

// Versioned, with a checksum, written atomically.
void save_snapshot(const Snapshot& snapshot, const std::filesystem::path& path);
// kCorrupt for anything that save_snapshot() did not write, kUnsupported for another version; allocates no
// more than the file's size.
Snapshot load_snapshot(const std::filesystem::path& path);

}  // namespace perigee
