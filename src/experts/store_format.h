// The index of a store (docs/formats.md, "The store"): which file every expert's record is in, where, what is
// where inside it, and the checksum of its bytes. One small binary file that is read whole and believed only
// as far as it has been checked. Deliberately knows neither the trunk nor how records are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "experts/expert_table.h"

namespace perigee {

inline constexpr const char* kStoreIndexName = "experts.index";
inline constexpr std::uint64_t kRecordAlignment = 4096;  // of a record's place and length
inline constexpr std::uint64_t kPartAlignment = 64;      // of a part inside a record

struct StoreFile {
  std::string path;      // relative to the store's folder
  std::string fallback;  // absolute, as it was when the store was made; looked for second
  std::uint64_t bytes = 0;
};

struct StoreIndex {
  std::uint64_t config_checksum = 0;  // XXH3-64 of config.json
  bool linked = false;                // experts lie in a checkpoint's shards, unaligned
  std::vector<StoreFile> files;
  ExpertTable table;  // with checksums
};

// Where the parts of an expert with matrices of these formats and sizes lie in a record: values of w1, w3,
// w2, then their scales in the same order, then their global scales if they have any.
RunLayout record_layout(const RunLayout& matrices);

// Deterministic.
std::string serialize_store_index(const StoreIndex& index);

// kCorrupt naming `origin` and what is wrong; kUnsupported for another version. Allocates no more than a
// small multiple of the input. Everything that the table says is then inside the files' sizes, and no two
// records overlap.
StoreIndex parse_store_index(std::span<const std::byte> bytes, const std::string& origin);

struct OpenedStore {
  StoreIndex index;
  std::vector<std::filesystem::path> files;  // as found; one for each of index.files
};

// Reads the index and holds it to config.json and to the files: kNotFound, kCorrupt or kMismatch naming the
// file.
OpenedStore open_store(const std::filesystem::path& store);

}  // namespace perigee
