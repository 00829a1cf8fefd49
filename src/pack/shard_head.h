// What a store keeps of a source shard beside trunk and records, so that the shard can be given back byte for
// byte: its header and the tensors that nothing here uses (scales of activations). In STORE/.source/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace perigee {

inline constexpr const char* kSourceFolder = ".source";

std::filesystem::path head_path(const std::filesystem::path& store, const std::string& shard);

// The bytes of a head file: the shard's own first bytes, then the leftovers in the shard's order.
std::string read_head(const File& shard, const SafetensorsHeader& header,
                      const std::vector<TensorInfo>& leftovers);

// The header of a shard of `shard_bytes` bytes, from its head file.
SafetensorsHeader parse_head(const std::filesystem::path& head, std::uint64_t shard_bytes);

}  // namespace perigee
