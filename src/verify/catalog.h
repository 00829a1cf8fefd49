// Where the tensors of a checkpoint are: the index for the whole, headers and files opened when they are
// asked for. A shard may be registered under its temporary name before any index exists. Deliberately not
// thread safe and without any knowledge of what a tensor means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors.h"

namespace perigee {

// One safetensors file: its checked header, and the file opened for direct reads.
struct CheckedShard {
  std::string name;  // as in the index
  std::uint64_t file_bytes = 0;
  File file;
  SafetensorsHeader header;

  // Throws kNotFound or kCorrupt. `name` is what messages and reports call it; empty means the path's last
  // part.
  static std::shared_ptr<const CheckedShard> open(const std::filesystem::path& path, std::string name = {});
  std::uint64_t position(const TensorInfo& tensor) const { return header.data_offset + tensor.begin; }
};

struct LocatedTensor {
  std::shared_ptr<const CheckedShard> shard;
  const TensorInfo* info = nullptr;  // in shard->header
  explicit operator bool() const { return info != nullptr; }
  std::uint64_t position() const { return shard->position(*info); }
};

class TensorCatalog {
 public:
  // Loads the index of the folder.
  explicit TensorCatalog(std::filesystem::path checkpoint);
  // Uses an index that is loaded already.
  TensorCatalog(std::filesystem::path checkpoint, CheckpointIndex index);

  const std::filesystem::path& path() const { return path_; }
  const CheckpointIndex& index() const { return index_; }

  // Empty if the index has no such tensor. Throws kNotFound if the file is missing, kCorrupt if the file has
  // a broken header or lacks the tensor that the index puts there.
  LocatedTensor find(std::string_view name);
  // The shard of that name, opened now or still open from before.
  std::shared_ptr<const CheckedShard> shard(const std::string& file_name);

 private:
  std::filesystem::path path_;
  CheckpointIndex index_;
  std::list<std::shared_ptr<const CheckedShard>> recent_;  // newest first
};

}  // namespace perigee
