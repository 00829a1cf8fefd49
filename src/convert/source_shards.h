// The shards of a source checkpoint, opened when they are needed and shared while anybody reads them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace perigee {

struct OpenShard {
  ShardHeader meta;
  File file;  // direct where the file system allows it
};

class SourceShards {
 public:
  // `index` must outlive this object.
  SourceShards(std::filesystem::path checkpoint, const CheckpointIndex& index);

  // Opens and checks the shard (read_shard_header), or returns the one that is open already.
  std::shared_ptr<const OpenShard> open(const std::string& file_name);

  // Opens the shard that holds `tensor`; nullptr if the index has no such tensor.
  std::shared_ptr<const OpenShard> open_for(const std::string& tensor);

 private:
  const std::filesystem::path checkpoint_;
  const CheckpointIndex& index_;
  std::unordered_map<std::string, std::weak_ptr<const OpenShard>> opened_;
};

// kMismatch if the file's size or modification time is no longer what it was when the shard was opened.
void check_unchanged(const std::filesystem::path& checkpoint, const ShardHeader& shard);

}  // namespace perigee
