// The whole of a pack, decided before the first byte is written: the items, in the order of the source's
// shards, and where every expert comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experts/checkpoint_experts.h"
#include "pack/pack.h"

namespace perigee {

struct PackItem {
  std::string name;  // "trunk-00001" or "experts-00012"
  bool is_trunk = false;
  std::uint64_t number = 0;           // of the shard in the source's index, or of the layer
  std::vector<std::uint32_t> shards;  // of the source, that it reads
  std::uint64_t source_bytes = 0;
  std::uint64_t store_bytes = 0;
};

struct PackPlan {
  K3Config config;
  std::string config_text;
  CheckpointIndex index;
  std::vector<std::uint64_t> shard_bytes;  // file sizes
  ExpertTable experts;                     // in the source
  std::vector<PackItem> items;
  PlaneTable planes;
  std::string fingerprint;
};

// kUsage for options that do not go together or folders inside one another, kNotFound for a missing source.
void check_pack_options(const PackOptions& options);

// kUnsupported, kCorrupt or kNotFound for a source that cannot be packed. `read_header` also knows shards
// that an earlier run deleted.
PackPlan plan_pack(const PackOptions& options, const ReadShardHeader& read_header);

// What the layer's experts are in the source.
std::vector<RunLayout> source_layouts(const PackPlan& plan, std::uint64_t layer);

// The folders of the records: the stripes, or the store itself.
std::vector<Stripe> record_folders(const PackOptions& options);

// The same for a folder before and after it is made, which std::filesystem::weakly_canonical() is not.
std::filesystem::path canonical_path(const std::filesystem::path& path);

std::string trunk_item_name(std::uint64_t shard);  // "trunk-00001" for shard 0
std::string trunk_file_name(std::uint64_t shard);  // "trunk-00001.safetensors" for shard 0

}  // namespace perigee
