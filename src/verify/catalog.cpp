#include "verify/catalog.h"

#include "base/error.h"

namespace perigee {
namespace {

// A shard of K3 has 5,400 tensors, two megabytes of header in memory; neighbours are asked for again and
// again.
constexpr std::size_t kRecentShards = 8;

}  // namespace

std::shared_ptr<const CheckedShard> CheckedShard::open(const std::filesystem::path& path, std::string name) {
  auto shard = std::make_shared<CheckedShard>();
  SafetensorsFile checked = SafetensorsFile::open(path);
  shard->name = name.empty() ? path.filename().string() : std::move(name);
  shard->file_bytes = checked.file.size();
  shard->header = std::move(checked.header);
  shard->file = File::open_read(path, Caching::kDirect);
  return shard;
}

TensorCatalog::TensorCatalog(std::filesystem::path checkpoint)
    : TensorCatalog(checkpoint, load_checkpoint_index(checkpoint)) {}

TensorCatalog::TensorCatalog(std::filesystem::path checkpoint, CheckpointIndex index)
    : path_(std::move(checkpoint)), index_(std::move(index)) {
  index_.rebuild_lookup();
}

std::shared_ptr<const CheckedShard> TensorCatalog::shard(const std::string& file_name) {
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if ((*it)->name != file_name) continue;
    recent_.splice(recent_.begin(), recent_, it);
    return recent_.front();
  }
  recent_.push_front(CheckedShard::open(path_ / file_name, file_name));
  if (recent_.size() > kRecentShards) recent_.pop_back();
  return recent_.front();
}

LocatedTensor TensorCatalog::find(std::string_view name) {
  const std::string* file_name = index_.shard_of(name);
  if (file_name == nullptr) return {};
  LocatedTensor place;
  place.shard = shard(*file_name);
  place.info = place.shard->header.find(std::string(name));
  if (place.info == nullptr) {
    fail(ErrorCode::kCorrupt, "{}: the index puts {} there, but the file has no such tensor",
         (path_ / *file_name).string(), name);
  }
  return place;
}

}  // namespace perigee
