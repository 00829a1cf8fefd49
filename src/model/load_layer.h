// One mixture-of-experts layer of a checkpoint, loaded alone: from a single shard, or from a folder in which
// only the shards of that layer need to exist. Everything but the routed experts is in memory; an expert is
// read when a lease comes to it and forgotten afterwards, so that a layer of 17 GB needs little more than its
// trunk. Deliberately no way to run a model: it serves checks of one layer (proof/block_parity.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/dtype.h"
#include "experts/expert_source.h"
#include "model/weights.h"

namespace perigee {

// What a tensor is in the file, so that two people can compare theirs.
struct Fingerprint {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::uint64_t> shape;
  std::uint64_t hash = 0;  // XXH3-64 of the tensor's bytes in the file
  bool operator==(const Fingerprint&) const = default;
};

// The layer to look at: `wanted`, or the first with routed experts. `path` is a shard or a checkpoint folder.
// kNotFound if it is not there, kUnsupported if the config does not describe such a layer.
std::uint64_t choose_moe_layer(const K3Config& config, const std::filesystem::path& path,
                               std::optional<std::uint64_t> wanted);

class LoadedLayer {
 public:
  struct Options {
    std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;  // of the trunk
    std::uint64_t memory_limit_bytes = 0;  // 0: what the machine has available
  };

  // Checks the names, types and shapes of all tensors of the layer, experts too, then reads the trunk.
  // Errors as LoadedModel::load(), and kCorrupt naming a weight or scale that is not a number. Of an expert
  // that is told when a lease reads it.
  static LoadedLayer load(const K3Config& config, const std::filesystem::path& path, std::uint64_t layer,
                          const Options& options);
  ~LoadedLayer();
  LoadedLayer(LoadedLayer&&) noexcept;
  LoadedLayer& operator=(LoadedLayer&&) noexcept;

  const LayerWeights& weights() const;
  ExpertSource& experts() const;  // of this layer only; holds one expert for each lease
  ExpertFormat expert_format() const;
  std::uint64_t trunk_bytes() const;   // in memory
  std::uint64_t expert_bytes() const;  // of one expert

  const std::vector<Fingerprint>& trunk_fingerprints() const;  // by place in the file
  std::vector<Fingerprint> expert_fingerprints(std::uint64_t expert) const;

 private:
  struct Storage;
  explicit LoadedLayer(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

}  // namespace perigee
