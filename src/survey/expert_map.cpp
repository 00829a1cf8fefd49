#include "survey/expert_map.h"

#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_name.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

struct FoundModule {
  std::optional<TensorPlace> nibbles, scales;
};
using FoundExperts = std::map<std::pair<std::int32_t, std::int32_t>, std::array<FoundModule, 3>>;

void add_tensors(const SafetensorsHeader& header, std::uint32_t shard, FoundExperts& found) {
  for (const TensorInfo& tensor : header.tensors) {
    const TensorName name = parse_tensor_name(tensor.name);
    if (name.tensor_class != TensorClass::kExpert) continue;
    const TensorPlace place{shard, header.data_offset + tensor.begin, tensor.bytes()};
    FoundModule& module = found[{name.layer, name.expert}][static_cast<std::size_t>(name.projection) - 1];
    if (name.part == Part::kWeight || name.part == Part::kWeightPacked) module.nibbles = place;
    if (name.part == Part::kWeightScale) module.scales = place;
  }
}

void note_format(ExpertFormat format, const std::string& file_name, ExpertMap& map) {
  if (format == ExpertFormat::kNone) return;
  if (map.format != ExpertFormat::kNone && map.format != format) {
    fail(ErrorCode::kUnsupported,
         "{} holds experts as {}, earlier shards as {}; one checkpoint needs one format", file_name,
         expert_format_name(format), expert_format_name(map.format));
  }
  map.format = format;
}

// A group of 32 is 16 bytes of nibbles and one E8M0 byte or two E4M3 bytes.
void check_sizes(const ExpertModulePlace& module, const std::string& name, ExpertFormat format) {
  const std::uint64_t scales_per_group = format == ExpertFormat::kMxfp4 ? 1 : 2;
  const bool whole_groups = module.nibbles.bytes % 16 == 0;
  if (whole_groups && module.nibbles.bytes / 16 * scales_per_group == module.scales.bytes) return;
  fail(ErrorCode::kCorrupt, "{}: {} bytes of nibbles do not go with {} bytes of {} scales", name,
       module.nibbles.bytes, module.scales.bytes, expert_format_name(format));
}

void keep_complete(const FoundExperts& found, ExpertMap& map) {
  for (const auto& [key, modules] : found) {
    ExpertPlace expert;
    bool complete = true;
    for (std::size_t i = 0; i < modules.size(); ++i) {
      complete = complete && modules[i].nibbles && modules[i].scales;
      if (complete) expert[i] = {*modules[i].nibbles, *modules[i].scales};
    }
    if (!complete) {
      ++map.incomplete_experts;
      continue;
    }
    for (std::size_t i = 0; i < expert.size(); ++i) {
      check_sizes(expert[i], expert_module_name(key.first, key.second, static_cast<Projection>(i + 1)),
                  map.format);
      map.scale_bytes += expert[i].scales.bytes;
      map.nibble_bytes += expert[i].nibbles.bytes;
    }
    map.layers[key.first][key.second] = expert;
  }
}

}  // namespace

ExpertMap map_experts(const fs::path& checkpoint, const CheckpointIndex& index) {
  ExpertMap map;
  map.shards = index.shards;
  FoundExperts found;
  for (std::uint32_t i = 0; i < index.shards.size(); ++i) {
    std::error_code ignored;
    if (!fs::exists(checkpoint / index.shards[i], ignored)) {
      ++map.missing_shards;
      continue;
    }
    const ShardHeader shard = read_shard_header(checkpoint, index, index.shards[i]);
    note_format(detect_expert_format(shard.header, shard.file_name), shard.file_name, map);
    add_tensors(shard.header, i, found);
  }
  keep_complete(found, map);
  return map;
}

}  // namespace perigee
