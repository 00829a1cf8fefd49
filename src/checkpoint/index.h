// model.safetensors.index.json: which tensor is in which file. Half a million names for K3, parsed in under a
// second; file names are checked before they are ever used as paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/name_hash.h"

namespace perigee {

inline constexpr const char* kIndexFileName = "model.safetensors.index.json";

struct IndexEntry {
  std::string name;
  std::uint32_t shard = 0;  // index into CheckpointIndex::shards
};

struct CheckpointIndex {
  std::vector<std::string> shards;          // plain file names, sorted
  std::vector<IndexEntry> entries;          // in the order of the file
  std::optional<std::uint64_t> total_size;  // metadata.total_size, the sum of tensor bytes
  std::unordered_map<std::string_view, std::uint32_t, NameHash> by_name;  // name (in entries) -> entry index

  // Movable only: by_name looks into the strings of `entries`, which a move keeps and a copy would not.
  CheckpointIndex() = default;
  CheckpointIndex(CheckpointIndex&&) = default;
  CheckpointIndex& operator=(CheckpointIndex&&) = default;

  const std::string* shard_of(std::string_view name) const;  // nullptr if absent
  // After filling `shards` and `entries` by hand. kCorrupt naming a tensor that is listed twice.
  void rebuild_lookup();
};

// kCorrupt naming the file and entry for malformed JSON, duplicate names, a file name that is not a plain
// "*.safetensors" (no "/", no "..", not absolute) or a missing weight_map.
CheckpointIndex parse_index(std::string_view json, const std::string& origin);
CheckpointIndex load_index(const std::filesystem::path& path);

// Loads the index of a checkpoint folder; if there is none but exactly one *.safetensors file, makes one from
// its header; kNotFound otherwise.
CheckpointIndex load_checkpoint_index(const std::filesystem::path& checkpoint);

// Deterministic JSON (indent 2, entries in order, trailing newline), streamed so that a million names stay
// cheap.
std::string serialize_index(const CheckpointIndex& index);

}  // namespace perigee
