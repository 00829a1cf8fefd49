#include "pack/trunk_plan.h"

#include "checkpoint/tensor_name.h"

namespace perigee {
namespace {

bool is_of_stored_expert(const TensorName& name, const K3Config& config) {
  const auto layer = static_cast<std::uint64_t>(name.layer);
  return name.tensor_class == TensorClass::kExpert && layer < config.num_hidden_layers &&
         config.is_moe(layer);
}

bool is_weight_part(Part part) {
  switch (part) {
    case Part::kWeight:
    case Part::kWeightPacked:
    case Part::kWeightScale:
    case Part::kWeightScale2:
    case Part::kWeightGlobalScale:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_in_record(const TensorInfo& tensor, const K3Config& config) {
  const TensorName name = parse_tensor_name(tensor.name);
  return is_of_stored_expert(name, config) && is_weight_part(name.part);
}

TrunkPlan plan_trunk(const SafetensorsHeader& shard, const K3Config& config, const PlaneFormats& formats) {
  TrunkPlan plan;
  std::vector<TensorInfo> outputs;
  for (const TensorInfo& tensor : shard.tensors) {
    const TensorName name = parse_tensor_name(tensor.name);
    if (is_of_stored_expert(name, config)) {
      if (!is_weight_part(name.part)) plan.leftovers.push_back(tensor);
      continue;
    }
    TrunkTensor planned;
    planned.source = tensor;
    planned.plane = plane_of(tensor);
    if (planned.plane) {
      planned.format = format_for(tensor, formats[static_cast<std::size_t>(*planned.plane)]);
    }
    planned.stored = stored_tensors(tensor, planned.format);
    outputs.insert(outputs.end(), planned.stored.begin(), planned.stored.end());
    plan.source_bytes += tensor.bytes();
    plan.tensors.push_back(std::move(planned));
  }
  const std::uint64_t data_bytes = assign_offsets(outputs);
  std::size_t next = 0;
  for (TrunkTensor& tensor : plan.tensors) {
    for (TensorInfo& stored : tensor.stored) stored = outputs[next++];
  }
  plan.header = serialize_safetensors_header(outputs, {});
  plan.file_bytes = plan.header.size() + data_bytes;
  return plan;
}

}  // namespace perigee
