#include "convert/source_shards.h"

#include "base/error.h"

namespace perigee {

SourceShards::SourceShards(std::filesystem::path checkpoint, const CheckpointIndex& index)
    : checkpoint_(std::move(checkpoint)), index_(index) {}

std::shared_ptr<const OpenShard> SourceShards::open(const std::string& file_name) {
  if (std::shared_ptr<const OpenShard> shard = opened_[file_name].lock()) return shard;
  auto shard = std::make_shared<OpenShard>();
  shard->meta = read_shard_header(checkpoint_, index_, file_name);
  shard->file = File::open_read(checkpoint_ / file_name, Caching::kDirect);
  opened_[file_name] = shard;
  return shard;
}

std::shared_ptr<const OpenShard> SourceShards::open_for(const std::string& tensor) {
  const std::string* file_name = index_.shard_of(tensor);
  return file_name == nullptr ? nullptr : open(*file_name);
}

void check_unchanged(const std::filesystem::path& checkpoint, const ShardHeader& shard) {
  const File file = File::open_read(checkpoint / shard.file_name);
  if (file.size() == shard.file_bytes && file.modified_ns() == shard.modified_ns) return;
  fail(ErrorCode::kMismatch,
       "{} changed while it was being read; its output was discarded, run the command again",
       file.path().string());
}

}  // namespace perigee
