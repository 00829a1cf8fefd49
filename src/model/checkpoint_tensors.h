// Where the tensors of a checkpoint lie: every name with its shard and byte range, from headers alone. Of all
// shards, or of those that hold one layer, so that a single shard of a checkpoint of a hundred can be looked
// at alone. Reads no tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/name_hash.h"
#include "checkpoint/safetensors.h"

namespace perigee {

class CheckpointTensors {
 public:
  struct Location {
    const ShardHeader* shard = nullptr;
    const TensorInfo* tensor = nullptr;
  };
  using Locations = std::unordered_map<std::string, Location, NameHash>;

  // Reads the index and every shard's header. Errors as read_shard_header().
  static CheckpointTensors of_checkpoint(const std::filesystem::path& checkpoint);

  // The tensors of one layer only. `path` is a checkpoint folder, of which only the shards with that layer
  // need to exist, or one shard file, which is checked against the index beside it if there is one.
  static CheckpointTensors of_layer(const std::filesystem::path& path, std::uint64_t layer);

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& origin() const { return origin_; }  // what was asked for, for messages
  const Locations& locations() const { return locations_; }
  const Location* find(const std::string& name) const;  // nullptr if absent

 private:
  CheckpointTensors(std::filesystem::path folder, std::filesystem::path origin)
      : folder_(std::move(folder)), origin_(std::move(origin)) {}
  void add(ShardHeader shard, const std::string& prefix);

  std::filesystem::path folder_;
  std::filesystem::path origin_;
  std::vector<std::unique_ptr<ShardHeader>> shards_;
  Locations locations_;
};

// "language_model.model.layers.{layer}."
std::string layer_prefix(std::uint64_t layer);

// Layers with routed experts in a shard file or in a checkpoint folder (as its index says), ascending.
std::vector<std::uint64_t> expert_layers(const std::filesystem::path& path);

}  // namespace perigee
