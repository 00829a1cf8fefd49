#include "plan/model_sizes.h"

#include <algorithm>
#include <numeric>

#include "checkpoint/schema.h"
#include "checkpoint/tensor_name.h"
#include "experts/expert_files.h"
#include "experts/slot_pool.h"
#include "model/checkpoint_tensors.h"
#include "model/memory_needs.h"

namespace perigee {
namespace {

constexpr const char* kEmbeddings = "embeddings";
constexpr const char* kDense = "dense layers";
constexpr const char* kOthers = "others";

// The plane of a weight, or of the scales of one that is smaller already.
std::optional<Plane> plane_of_part(const TensorInfo& tensor, const TensorName& name) {
  if (name.part == Part::kWeight) return plane_of(tensor);
  if (name.part != Part::kWeightScale && name.part != Part::kWeightScale2) return std::nullopt;
  return plane_of_class(name.tensor_class);
}

const char* name_of_rest(const TensorName& name, const TensorInfo& tensor) {
  if (name.tensor_class == TensorClass::kDenseMlp) return kDense;
  return name.tensor_class == TensorClass::kEmbedding && tensor.shape.size() == 2 ? kEmbeddings : kOthers;
}

bool is_trunk(TensorClass tensor_class) {
  return tensor_class != TensorClass::kExpert && tensor_class != TensorClass::kProjector &&
         tensor_class != TensorClass::kVision && tensor_class != TensorClass::kUnknown;
}

double weights_in(const TensorInfo& tensor, const TensorName& name) {
  if (name.part != Part::kWeight || tensor.shape.size() != 2) return 0;
  const double stored = static_cast<double>(tensor.shape[0]) * static_cast<double>(tensor.shape[1]);
  return tensor.dtype == DType::kU8 ? 2 * stored : stored;
}

// With offsets, because those say how many bytes a tensor has.
std::vector<TensorInfo> placed(std::vector<TensorInfo> tensors) {
  assign_offsets(tensors);
  return tensors;
}

TrunkPart& part_named(std::vector<TrunkPart>& parts, const char* name) {
  return *std::ranges::find(parts, name, &TrunkPart::name);
}

void add_tensor(std::vector<TrunkPart>& parts, const TensorInfo& tensor) {
  const TensorName name = parse_tensor_name(tensor.name);
  if (!is_trunk(name.tensor_class)) return;
  const std::optional<Plane> plane = plane_of_part(tensor, name);
  TrunkPart& part = part_named(parts, plane ? plane_name(*plane) : name_of_rest(name, tensor));
  part.bytes += tensor.bytes();
  part.four_bit_bytes += tensor.dtype == DType::kU8 ? tensor.bytes() : 0;
  if (part.name != kEmbeddings) part.weights += weights_in(tensor, name);
  const bool can_shrink = plane && tensor.dtype == DType::kBF16;
  for (const PlaneFormat format : {PlaneFormat::kBf16, PlaneFormat::kFp8, PlaneFormat::kNvfp4}) {
    const PlaneFormat stored_as = can_shrink ? format_for(tensor, format) : PlaneFormat::kBf16;
    for (const TensorInfo& stored : placed(stored_tensors(tensor, stored_as))) {
      const auto i = static_cast<std::size_t>(format);
      part.bytes_as[i] += stored.bytes();
      part.four_bit_bytes_as[i] += stored.dtype == DType::kU8 ? stored.bytes() : 0;
    }
  }
}

std::vector<TrunkPart> empty_parts() {
  std::vector<TrunkPart> parts;
  for (const Plane plane : kPlanes) {
    TrunkPart part;
    part.name = plane_name(plane);
    part.plane = plane;
    parts.push_back(std::move(part));
  }
  for (const char* name : {kEmbeddings, kDense, kOthers}) {
    parts.emplace_back();
    parts.back().name = name;
  }
  return parts;
}

}  // namespace

std::uint64_t ModelSizes::trunk_bytes() const {
  return std::accumulate(trunk.begin(), trunk.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const TrunkPart& part) { return sum + part.bytes; });
}

ModelSizes sizes_of(const K3Config& config, std::span<const TensorInfo> tensors, std::uint64_t expert_bytes) {
  ModelSizes sizes;
  sizes.trunk = empty_parts();
  for (const TensorInfo& tensor : tensors) add_tensor(sizes.trunk, tensor);
  sizes.moe_layers = config.moe_layers();
  sizes.experts = config.num_experts;
  sizes.top_k = config.num_experts_per_token;
  sizes.expert_bytes = expert_bytes;
  sizes.slot_bytes = slot_bytes_for(expert_bytes);
  sizes.expert_weights = 3.0 * static_cast<double>(config.moe_intermediate_size) *
                         static_cast<double>(config.routed_expert_hidden_size);
  const auto mla = static_cast<std::uint64_t>(std::ranges::count(config.is_mla, true));
  sizes.state_bytes = state_bytes(config, 0, Precision::kBf16);
  sizes.cache_bytes_a_token = cache_bytes_a_token(config, Precision::kBf16);
  sizes.attention_macs_a_position = static_cast<double>(mla * config.num_attention_heads *
                                                        (2 * config.kv_lora_rank + config.qk_rope_head_dim));
  sizes.activations_a_token = activation_bytes_a_token(config);
  return sizes;
}

ModelSizes sizes_from_config(const K3Config& config, std::uint64_t expert_bytes, bool fp8_attention) {
  std::vector<TensorInfo> trunk;
  std::uint64_t released_bytes = 0;  // of all experts
  for (SchemaShard& shard : released_layout(config)) {
    for (TensorInfo& tensor : shard.tensors) {
      if (parse_tensor_name(tensor.name).tensor_class == TensorClass::kExpert) {
        released_bytes += tensor.bytes();
      } else if (fp8_attention && plane_of(tensor) == Plane::kAttention) {
        for (TensorInfo& stored : placed(stored_tensors(tensor, PlaneFormat::kFp8)))
          trunk.push_back(std::move(stored));
      } else {
        trunk.push_back(std::move(tensor));
      }
    }
  }
  const std::uint64_t count = std::max<std::uint64_t>(1, config.moe_layers() * config.num_experts);
  return sizes_of(config, trunk, expert_bytes > 0 ? expert_bytes : released_bytes / count);
}

ModelSizes sizes_of_store(const std::filesystem::path& store) {
  const CheckpointTensors tensors = CheckpointTensors::of_checkpoint(store);
  std::vector<TensorInfo> trunk;
  for (const auto& [name, location] : tensors.locations()) trunk.push_back(*location.tensor);
  return sizes_of(load_config(store / "config.json"), trunk, open_store_experts(store)->largest_run());
}

ModelSizes with_planes(ModelSizes sizes, PlaneFormat format) {
  for (TrunkPart& part : sizes.trunk) {
    const auto i = static_cast<std::size_t>(format);
    part.bytes = part.bytes_as[i];
    part.four_bit_bytes = part.four_bit_bytes_as[i];
  }
  return sizes;
}

}  // namespace perigee
