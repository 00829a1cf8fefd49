#include "model/checkpoint_tensors.h"

#include <fmt/format.h>

#include <set>
#include <system_error>

#include "base/error.h"
#include "checkpoint/index.h"
#include "checkpoint/tensor_name.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& shard) {
  return shard.has_parent_path() ? shard.parent_path() : fs::path(".");
}

ShardHeader read_alone(const fs::path& path) {
  const File file = File::open_read(path);
  ShardHeader shard;
  shard.file_name = path.filename().string();
  shard.file_bytes = file.size();
  shard.modified_ns = file.modified_ns();
  shard.header = read_safetensors_header(file);
  return shard;
}

// The index beside the shard may name a hundred others that are not there.
ShardHeader read_shard_file(const fs::path& path) {
  const fs::path folder = folder_of(path);
  std::error_code ignored;
  if (!fs::exists(folder / kIndexFileName, ignored)) return read_alone(path);
  return read_shard_header(folder, load_index(folder / kIndexFileName), path.filename().string());
}

std::set<std::string> shards_with(const CheckpointIndex& index, const std::string& prefix) {
  std::set<std::string> names;
  for (const IndexEntry& entry : index.entries) {
    if (entry.name.starts_with(prefix)) names.insert(index.shards[entry.shard]);
  }
  return names;
}

void note_layer(const std::string& tensor, std::set<std::uint64_t>& layers) {
  const TensorName name = parse_tensor_name(tensor);
  if (name.tensor_class == TensorClass::kExpert && name.layer >= 0)
    layers.insert(static_cast<std::uint64_t>(name.layer));
}

}  // namespace

std::string layer_prefix(std::uint64_t layer) {
  return fmt::format("language_model.model.layers.{}.", layer);
}

std::vector<std::uint64_t> expert_layers(const fs::path& path) {
  std::set<std::uint64_t> layers;
  if (fs::is_directory(path)) {
    for (const IndexEntry& entry : load_checkpoint_index(path).entries) note_layer(entry.name, layers);
  } else {
    for (const TensorInfo& tensor : read_shard_file(path).header.tensors) note_layer(tensor.name, layers);
  }
  return {layers.begin(), layers.end()};
}

CheckpointTensors CheckpointTensors::of_checkpoint(const fs::path& checkpoint) {
  CheckpointTensors tensors(checkpoint, checkpoint);
  const CheckpointIndex index = load_checkpoint_index(checkpoint);
  for (const std::string& name : index.shards) tensors.add(read_shard_header(checkpoint, index, name), "");
  return tensors;
}

CheckpointTensors CheckpointTensors::of_layer(const fs::path& path, std::uint64_t layer) {
  const std::string prefix = layer_prefix(layer);
  if (!fs::is_directory(path)) {
    CheckpointTensors tensors(folder_of(path), path);
    tensors.add(read_shard_file(path), prefix);
    return tensors;
  }
  CheckpointTensors tensors(path, path);
  const CheckpointIndex index = load_checkpoint_index(path);
  for (const std::string& name : shards_with(index, prefix))
    tensors.add(read_shard_header(path, index, name), prefix);
  return tensors;
}

void CheckpointTensors::add(ShardHeader shard, const std::string& prefix) {
  shards_.push_back(std::make_unique<ShardHeader>(std::move(shard)));
  const ShardHeader& kept = *shards_.back();
  for (const TensorInfo& tensor : kept.header.tensors) {
    if (tensor.name.starts_with(prefix)) locations_[tensor.name] = {&kept, &tensor};
  }
}

const CheckpointTensors::Location* CheckpointTensors::find(const std::string& name) const {
  const auto found = locations_.find(name);
  return found == locations_.end() ? nullptr : &found->second;
}

}  // namespace perigee
