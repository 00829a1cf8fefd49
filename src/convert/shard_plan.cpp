#include "convert/shard_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/stream_writer.h"
#include "numerics/fp8_block.h"

namespace perigee {
namespace {

// Plain bytes are copied, and FP8 tensors converted, in slices of about this size.
constexpr std::uint64_t kSliceBytes = 16ull << 20;

struct PartSuffixes {
  const char* nibbles;
  const char* tensor_scale;  // nullptr where the format has none
  const char* input_scale;
};

PartSuffixes source_suffixes(ExpertFormat format) {
  switch (format) {
    case ExpertFormat::kNvfp4ModelOpt:
      return {".weight", ".weight_scale_2", ".input_scale"};
    case ExpertFormat::kNvfp4CompressedTensors:
      return {".weight_packed", ".weight_global_scale", ".input_global_scale"};
    default:
      return {".weight_packed", nullptr, nullptr};
  }
}

// Source tensors that are turned into output together.
struct TensorRun {
  std::size_t first = 0;  // indices into SafetensorsHeader::tensors
  std::size_t last = 0;   // inclusive
};

class Planner {
 public:
  Planner(SourceShards& sources, const std::string& file_name, const Conversion& conversion)
      : sources_(sources), conversion_(conversion), shard_(sources.open(file_name)) {
    plan_.file_name = file_name;
    plan_.sources.push_back(shard_);
  }

  ShardPlan plan() {
    lay_out_outputs();
    const std::vector<TensorInfo>& tensors = shard_->meta.header.tensors;
    for (std::size_t i = 0; i < tensors.size();) {
      TensorRun run{i, i};
      while (run.last + 1 < tensors.size() && belong_together(i, run.last + 1)) ++run.last;
      plan_run(run);
      i = run.last + 1;
    }
    for (const Unit& unit : plan_.units) {
      const std::uint64_t scratch = unit.out_length + kDirectAlignment;
      plan_.largest_slot = std::max(plan_.largest_slot, Pipeline::slot_bytes({unit.reads, scratch}));
    }
    return std::move(plan_);
  }

 private:
  void lay_out_outputs() {
    const SafetensorsHeader& header = shard_->meta.header;
    for (const TensorInfo& source : header.tensors) {
      first_output_.push_back(plan_.outputs.size());
      for (OutputTensor& output : output_tensors(source, conversion_)) {
        recipes_.push_back(output.recipe);
        plan_.outputs.push_back(std::move(output.info));
      }
    }
    first_output_.push_back(plan_.outputs.size());
    const std::uint64_t data_bytes = assign_offsets(plan_.outputs);
    std::map<std::string, std::string> metadata = header.metadata;
    metadata.try_emplace("format", "pt");
    plan_.header = serialize_safetensors_header(plan_.outputs, metadata);
    plan_.file_bytes = plan_.header.size() + data_bytes;
    plan_.source_bytes = header.data_bytes;
  }

  Recipe first_recipe(std::size_t source) const {
    return first_output_[source] < first_output_[source + 1] ? recipes_[first_output_[source]]
                                                             : Recipe::kCopy;
  }

  static bool same_expert(const TensorName& a, const TensorName& b) {
    return a.tensor_class == TensorClass::kExpert && b.tensor_class == TensorClass::kExpert &&
           a.layer == b.layer && a.expert == b.expert;
  }

  bool belong_together(std::size_t a, std::size_t b) const {
    const std::vector<TensorInfo>& tensors = shard_->meta.header.tensors;
    const TensorName first = parse_tensor_name(tensors[a].name);
    const TensorName second = parse_tensor_name(tensors[b].name);
    if (first.tensor_class == TensorClass::kExpert || second.tensor_class == TensorClass::kExpert) {
      return same_expert(first, second);
    }
    return first_recipe(a) == Recipe::kCopy && first_recipe(b) == Recipe::kCopy;
  }

  void plan_run(const TensorRun& run) {
    const TensorInfo& tensor = shard_->meta.header.tensors[run.first];
    if (parse_tensor_name(tensor.name).tensor_class == TensorClass::kExpert) {
      plan_expert(run);
    } else if (first_recipe(run.first) == Recipe::kFp8Weight) {
      plan_fp8(run.first);
    } else {
      plan_copy(run);
    }
  }

  void plan_copy(const TensorRun& run) {
    const std::vector<TensorInfo>& tensors = shard_->meta.header.tensors;
    const std::uint64_t out = plan_.outputs[first_output_[run.first]].begin;
    const std::uint64_t begin = tensors[run.first].begin;
    const std::uint64_t length = tensors[run.last].end - begin;
    for (std::uint64_t done = 0; done < length;) {
      const std::uint64_t piece = std::min(kSliceBytes, length - done);
      plan_.units.push_back({out + done, piece, {extent(begin + done, piece)}, CopyUnit{}});
      done += piece;
    }
  }

  void plan_fp8(std::size_t source) {
    const TensorInfo& tensor = shard_->meta.header.tensors[source];
    const TensorInfo& weight = plan_.outputs[first_output_[source]];
    const TensorInfo& scale = plan_.outputs[first_output_[source] + 1];
    const std::uint64_t rows = tensor.shape[0];
    const std::uint64_t columns = tensor.shape[1];
    const auto scales = std::make_shared<std::vector<float>>(scale.elements());
    const std::uint64_t tile_row_bytes = kFp8Tile * columns * 2;
    const std::uint64_t slice_rows =
        kFp8Tile * std::max<std::uint64_t>(1, kSliceBytes / std::max<std::uint64_t>(1, tile_row_bytes));
    for (std::uint64_t row = 0; row < rows; row += slice_rows) {
      const std::uint64_t count = std::min(slice_rows, rows - row);
      plan_.units.push_back({weight.begin + row * columns,
                             count * columns,
                             {extent(tensor.begin + row * columns * 2, count * columns * 2)},
                             Fp8Slice{tensor.name, row, count, columns, scales}});
    }
    plan_.units.push_back({scale.begin, scale.bytes(), {}, Fp8Scales{scales}});
    ++plan_.fp8_tensors;
  }

  Extent extent(std::uint64_t begin, std::uint64_t length) const {
    return {&shard_->file, shard_->meta.header.data_offset + begin, length};
  }

  void plan_expert(const TensorRun& run);
  std::size_t module_index(ExpertUnit& unit, Unit& holder, const TensorRun& run, std::string_view module,
                           Projection projection);
  Placement place(Unit& unit, const TensorRun& run, const std::string& tensor_name, bool required);

  SourceShards& sources_;
  const Conversion& conversion_;
  const std::shared_ptr<const OpenShard> shard_;
  ShardPlan plan_;
  std::vector<std::size_t> first_output_;  // per source tensor, index into plan_.outputs; one more at the end
  std::vector<Recipe> recipes_;            // per output
};

// Finds the bytes of a tensor: inside the unit's own contiguous read if it is there, else in a read of its
// own.
Placement Planner::place(Unit& unit, const TensorRun& run, const std::string& tensor_name, bool required) {
  const std::vector<TensorInfo>& tensors = shard_->meta.header.tensors;
  const std::shared_ptr<const OpenShard> holder = sources_.open_for(tensor_name);
  if (holder == nullptr) {
    if (!required) return {};
    fail(ErrorCode::kCorrupt, "{} has no tensor {}; the expert it belongs to is incomplete", plan_.file_name,
         tensor_name);
  }
  const TensorInfo& tensor = *holder->meta.header.find(tensor_name);
  if (tensor.bytes() == 0)
    fail(ErrorCode::kUnsupported, "{} is empty; an expert tensor must have values", tensor_name);
  if (holder == shard_ && tensor.begin >= tensors[run.first].begin && tensor.end <= tensors[run.last].end) {
    return {0, tensor.begin - tensors[run.first].begin, tensor.bytes()};
  }
  unit.reads.push_back({&holder->file, holder->meta.header.data_offset + tensor.begin, tensor.bytes()});
  plan_.sources.push_back(holder);
  return {unit.reads.size() - 1, 0, tensor.bytes()};
}

std::size_t Planner::module_index(ExpertUnit& unit, Unit& holder, const TensorRun& run,
                                  std::string_view module, Projection projection) {
  for (std::size_t i = 0; i < unit.modules.size(); ++i) {
    if (unit.modules[i].name == module) return i;
  }
  const PartSuffixes suffixes = source_suffixes(conversion_.source);
  ModulePlan plan;
  plan.name = std::string(module);
  plan.projection = projection;
  plan.nibbles = place(holder, run, plan.name + suffixes.nibbles, true);
  plan.scales = place(holder, run, plan.name + ".weight_scale", true);
  if (suffixes.tensor_scale != nullptr) {
    plan.tensor_scale = place(holder, run, plan.name + suffixes.tensor_scale, true);
    plan.input_scale = place(holder, run, plan.name + suffixes.input_scale, false);
  }
  const TensorInfo& nibbles =
      *sources_.open_for(plan.name + suffixes.nibbles)->meta.header.find(plan.name + suffixes.nibbles);
  plan.groups_per_row = nibbles.shape.size() == 2 ? nibbles.shape[1] / 16 : 0;
  const std::uint64_t scales_per_group = conversion_.source == ExpertFormat::kMxfp4 ? 1 : 2;
  if (plan.groups_per_row == 0 || plan.scales.length * 16 != plan.nibbles.length * scales_per_group) {
    fail(ErrorCode::kCorrupt, "{}: {} bytes of nibbles {} do not go with {} bytes of scales", plan.name,
         plan.nibbles.length, shape_text(nibbles.shape), plan.scales.length);
  }
  unit.modules.push_back(std::move(plan));
  return unit.modules.size() - 1;
}

void Planner::plan_expert(const TensorRun& run) {
  const std::vector<TensorInfo>& tensors = shard_->meta.header.tensors;
  Unit unit;
  unit.reads.push_back(extent(tensors[run.first].begin, tensors[run.last].end - tensors[run.first].begin));
  ExpertUnit expert;
  const std::size_t outputs_begin = first_output_[run.first];
  const std::size_t outputs_end = first_output_[run.last + 1];
  if (outputs_begin == outputs_end) return;  // nothing of this run is wanted in the target
  unit.out_begin = plan_.outputs[outputs_begin].begin;
  unit.out_length = plan_.outputs[outputs_end - 1].end - unit.out_begin;
  for (std::size_t source = run.first; source <= run.last; ++source) {
    const TensorName name = parse_tensor_name(tensors[source].name);
    const std::size_t module = module_index(expert, unit, run, name.module, name.projection);
    if (name.projection != Projection::kW2) {
      const Projection other = name.projection == Projection::kW1 ? Projection::kW3 : Projection::kW1;
      const std::string partner = expert_module_name(name.layer, name.expert, other);
      module_index(expert, unit, run, partner, other);
    }
    for (std::size_t i = first_output_[source]; i < first_output_[source + 1]; ++i) {
      const TensorInfo& output = plan_.outputs[i];
      expert.outputs.push_back({recipes_[i], module, output.begin - unit.out_begin, output.bytes()});
    }
  }
  unit.work = std::move(expert);
  plan_.units.push_back(std::move(unit));
}

}  // namespace

ShardPlan plan_shard(SourceShards& sources, const std::string& file_name, const Conversion& conversion) {
  return Planner(sources, file_name, conversion).plan();
}

}  // namespace perigee
