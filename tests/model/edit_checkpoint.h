// Checkpoints that tests change: all tensors in a map, written as one file without an index. For tests only.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>

#include "checkpoint/safetensors.h"
#include "support/mini_safetensors.h"

namespace perigee::test {

// All tensors of the shards of a checkpoint.
inline MiniTensors read_checkpoint(const std::filesystem::path& folder) {
  MiniTensors all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("model-") && name.ends_with(".safetensors"))
      all.merge(read_safetensors(entry.path()));
  }
  return all;
}

// Writes config.json and model.safetensors into the folder.
inline void write_checkpoint(const std::filesystem::path& folder, const std::filesystem::path& config,
                             const MiniTensors& tensors) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors) {
    TensorInfo info;
    info.name = name;
    info.dtype = *parse_dtype(tensor.dtype);
    info.shape = tensor.shape;
    infos.push_back(info);
  }
  assign_offsets(infos);
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file << serialize_safetensors_header(infos, {});
  for (const auto& [name, tensor] : tensors)
    file.write(reinterpret_cast<const char*>(tensor.data.data()),
               static_cast<std::streamsize>(tensor.data.size()));
  if (folder / "config.json" != config) std::filesystem::copy_file(config, folder / "config.json");
}

}  // namespace perigee::test
