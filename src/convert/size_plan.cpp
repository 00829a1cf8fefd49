#include "convert/size_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/schema.h"
#include "checkpoint/tensor_name.h"
#include "convert/output_tensors.h"

namespace perigee {
namespace {

using Shard = SchemaShard;

// What the names in an index say about how a checkpoint is stored.
struct SourceForm {
  ExpertFormat format = ExpertFormat::kMxfp4;
  bool has_input_scale = false;
  bool has_fp8_attention = false;

  Layout layout() const {
    if (has_fp8_attention) return Layout::kNvidiaMixed;
    if (format == ExpertFormat::kNvfp4ModelOpt) return Layout::kModelOpt;
    if (format == ExpertFormat::kNvfp4CompressedTensors) return Layout::kCompressedTensors;
    return Layout::kMxfp4;
  }
  Activations activations() const { return has_input_scale ? Activations::kPlaceholder : Activations::kNone; }
};

SourceForm form_of(const CheckpointIndex& index) {
  SourceForm form;
  for (const IndexEntry& entry : index.entries) {
    const TensorName name = parse_tensor_name(entry.name);
    if (name.tensor_class == TensorClass::kExpert) {
      if (name.part == Part::kWeightScale2) form.format = ExpertFormat::kNvfp4ModelOpt;
      if (name.part == Part::kWeightGlobalScale) form.format = ExpertFormat::kNvfp4CompressedTensors;
      form.has_input_scale |= name.part == Part::kInputScale || name.part == Part::kInputGlobalScale;
    } else {
      form.has_fp8_attention |= name.part == Part::kWeightScale;
    }
  }
  return form;
}

// The tensors of one file in another layout, in file order, offsets assigned.
std::vector<TensorInfo> convert_tensors(const std::vector<TensorInfo>& tensors,
                                        const Conversion& conversion) {
  std::vector<TensorInfo> outputs;
  outputs.reserve(tensors.size() * 2);
  for (const TensorInfo& tensor : tensors) {
    for (OutputTensor& output : output_tensors(tensor, conversion)) outputs.push_back(std::move(output.info));
  }
  assign_offsets(outputs);
  return outputs;
}

std::vector<Shard> convert_shards(const std::vector<Shard>& shards, const Conversion& conversion) {
  std::vector<Shard> converted;
  converted.reserve(shards.size());
  for (const Shard& shard : shards) {
    converted.push_back({shard.file_name, convert_tensors(shard.tensors, conversion)});
  }
  return converted;
}

void report_unknown(const std::vector<const std::string*>& unknown, SizePlan& plan) {
  if (unknown.empty()) return;
  plan.disagreements.push_back(fmt::format(
      "{} indexed tensors are not in the layout that config.json describes (first: {}); their size is "
      "unknown and not counted",
      unknown.size(), *unknown.front()));
}

// Moves the expected tensors into the files that the index names. Inside a file the released order is kept.
std::vector<Shard> place_by_index(std::vector<Shard> expected, const CheckpointIndex& index, SizePlan& plan) {
  std::vector<Shard> placed(index.shards.size());
  for (std::size_t i = 0; i < placed.size(); ++i) placed[i].file_name = index.shards[i];
  std::vector<bool> found(index.entries.size(), false);
  std::uint64_t missing = 0;
  for (Shard& shard : expected) {
    for (TensorInfo& tensor : shard.tensors) {
      const auto entry = index.by_name.find(tensor.name);
      if (entry == index.by_name.end()) {
        ++missing;
        continue;
      }
      found[entry->second] = true;
      placed[index.entries[entry->second].shard].tensors.push_back(std::move(tensor));
    }
    shard.tensors = {};
  }
  std::vector<const std::string*> unknown;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) unknown.push_back(&index.entries[i].name);
  }
  report_unknown(unknown, plan);
  if (missing > 0) {
    plan.disagreements.push_back(fmt::format(
        "{} tensors that config.json asks for are not in the index; the checkpoint is partial", missing));
  }
  for (Shard& shard : placed) assign_offsets(shard.tensors);
  return placed;
}

void add_file(const Shard& shard, LayoutPlan& plan, CheckpointIndex& index) {
  static const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};
  FilePlan file;
  file.name = shard.file_name;
  file.tensors = shard.tensors.size();
  file.header_bytes = serialize_safetensors_header(shard.tensors, kMetadata).size();
  file.data_bytes = shard.tensors.empty() ? 0 : shard.tensors.back().end;
  plan.tensors += file.tensors;
  plan.header_bytes += file.header_bytes;
  plan.tensor_bytes += file.data_bytes;
  plan.files.push_back(std::move(file));
  const auto number = static_cast<std::uint32_t>(index.shards.size());
  index.shards.push_back(shard.file_name);
  for (const TensorInfo& tensor : shard.tensors) index.entries.push_back({tensor.name, number});
}

void finish_layout(LayoutPlan& plan, CheckpointIndex& index) {
  index.total_size = plan.tensor_bytes;
  plan.index_bytes = serialize_index(index).size();
}

LayoutPlan plan_source(const std::vector<Shard>& shards, const SourceForm& form) {
  LayoutPlan plan;
  plan.layout = form.layout();
  plan.activations = form.activations();
  CheckpointIndex index;
  for (const Shard& shard : shards) add_file(shard, plan, index);
  finish_layout(plan, index);
  return plan;
}

LayoutPlan plan_target(const std::vector<Shard>& shards, const SourceForm& form, Layout layout,
                       Activations activations) {
  const Conversion conversion{form.format, form.has_input_scale, layout, activations};
  LayoutPlan plan;
  plan.layout = layout;
  plan.activations = activations;
  try {
    CheckpointIndex index;
    for (const Shard& shard : shards) {
      add_file({shard.file_name, convert_tensors(shard.tensors, conversion)}, plan, index);
    }
    finish_layout(plan, index);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    plan = LayoutPlan{};
    plan.layout = layout;
    plan.activations = activations;
    plan.impossible = error.what();
  }
  return plan;
}

bool is_trunk(TensorClass tensor_class) {
  return tensor_class != TensorClass::kExpert && tensor_class != TensorClass::kProjector &&
         tensor_class != TensorClass::kVision && tensor_class != TensorClass::kUnknown;
}

void count_for_running(const std::vector<Shard>& shards, const K3Config& config, SizePlan& plan) {
  for (const Shard& shard : shards) {
    for (const TensorInfo& tensor : shard.tensors) {
      const TensorName name = parse_tensor_name(tensor.name);
      if (is_trunk(name.tensor_class)) plan.trunk_bytes += tensor.bytes();
      if (name.tensor_class != TensorClass::kExpert) continue;
      plan.expert_bytes += tensor.bytes();
      if (name.part == Part::kWeightPacked || name.part == Part::kWeight) {
        ++plan.expert_modules;
        plan.mxfp4_blocks += tensor.bytes() / 16;
      }
    }
  }
  plan.experts = plan.expert_modules / 3;
  const std::uint64_t bytes_per_expert = plan.experts > 0 ? plan.expert_bytes / plan.experts : 0;
  plan.expert_bytes_per_token = bytes_per_expert * config.num_experts_per_token * config.moe_layers();
}

}  // namespace

std::span<const PlanTarget> all_targets() {
  static constexpr PlanTarget kAll[] = {
      {Layout::kModelOpt, Activations::kNone},
      {Layout::kModelOpt, Activations::kPlaceholder},
      {Layout::kCompressedTensors, Activations::kNone},
      {Layout::kCompressedTensors, Activations::kPlaceholder},
      {Layout::kNvidiaMixed, Activations::kPlaceholder},
      {Layout::kMxfp4, Activations::kNone},
  };
  return kAll;
}

std::uint64_t LayoutPlan::largest_file() const {
  std::uint64_t largest = 0;
  for (const FilePlan& file : files) largest = std::max(largest, file.file_bytes());
  return largest;
}

SizePlan plan_sizes(const K3Config& config, const CheckpointIndex* index,
                    std::span<const PlanTarget> targets) {
  SizePlan plan;
  const SourceForm form = index ? form_of(*index) : SourceForm{};
  std::vector<Shard> shards = released_layout(config);
  if (form.layout() != Layout::kMxfp4) {
    shards = convert_shards(shards, {ExpertFormat::kMxfp4, false, form.layout(), form.activations()});
  }
  if (index) shards = place_by_index(std::move(shards), *index, plan);
  plan.source = plan_source(shards, form);
  if (index && index->total_size && *index->total_size != plan.source.tensor_bytes) {
    plan.disagreements.push_back(
        fmt::format("the index says total_size {} but the tensors it names have {} bytes by config.json",
                    *index->total_size, plan.source.tensor_bytes));
  }
  for (const auto& [layout, activations] : targets) {
    if (layout == form.layout() && activations == form.activations()) continue;
    plan.targets.push_back(plan_target(shards, form, layout, activations));
  }
  count_for_running(shards, config, plan);
  return plan;
}

}  // namespace perigee
