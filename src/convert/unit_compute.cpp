#include "convert/unit_compute.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "numerics/fp8_block.h"
#include "numerics/lossless_cast.h"

namespace perigee {
namespace {

using Inputs = std::span<const std::span<const std::byte>>;

std::span<const std::byte> placed(Inputs inputs, const Placement& place) {
  return inputs[place.input].subspan(place.offset, place.length);
}

float read_float(Inputs inputs, const Placement& place, const std::string& module) {
  if (place.length != sizeof(float)) {
    fail(ErrorCode::kCorrupt, "{}: its tensor scale has {} bytes instead of 4", module, place.length);
  }
  float value = 0;
  std::memcpy(&value, placed(inputs, place).data(), sizeof value);
  if (!(value > 0) || !std::isfinite(value)) {
    fail(ErrorCode::kUnsupported, "{}: its tensor scale is {}, which is not a positive finite number", module,
         value);
  }
  return value;
}

void write_float(std::span<std::byte> out, float value) {
  std::memcpy(out.data(), &value, sizeof value);
}

bool is_power_of_two(float value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5F;
}

// The outputs of one module inside the unit; empty spans for those that are elsewhere.
struct ModuleOutputs {
  std::span<std::byte> nibbles, scales, tensor_scale, input_scale;
};

ModuleOutputs module_outputs(const ExpertUnit& expert, std::size_t module, std::span<std::byte> out) {
  ModuleOutputs outputs;
  for (const ExpertOutput& output : expert.outputs) {
    if (output.module != module) continue;
    const std::span<std::byte> bytes = out.subspan(output.offset, output.length);
    switch (output.recipe) {
      case Recipe::kPackedNibbles:
        outputs.nibbles = bytes;
        break;
      case Recipe::kBlockScales:
        outputs.scales = bytes;
        break;
      case Recipe::kTensorScale:
        outputs.tensor_scale = bytes;
        break;
      case Recipe::kInputScale:
        outputs.input_scale = bytes;
        break;
      default:
        fail(ErrorCode::kInternal, "an expert tensor has the recipe of another kind");
    }
  }
  return outputs;
}

bool uses_divisor(Layout layout) {
  return layout == Layout::kCompressedTensors;
}

const char* action_name(const ScaleDecision& decision) {
  if (decision.cast) return "cast";
  if (decision.method == RequantMethod::kSaturate) return "saturate";
  return decision.method == RequantMethod::kFourOverSix ? "requant-4over6" : "requant";
}

// From MXFP4: modules that share a scale are scanned, decided on and written together.
class Mxfp4Set {
 public:
  Mxfp4Set(const ExpertUnit& expert, std::vector<std::size_t> members, Inputs inputs,
           std::span<std::byte> out, const ComputeOptions& options)
      : expert_(expert), members_(std::move(members)), inputs_(inputs), options_(options) {
    for (const std::size_t member : members_) outputs_.push_back(module_outputs(expert, member, out));
  }

  void convert(std::vector<ModuleRecord>& records) {
    scan();
    const ScaleDecision decision = decide_scale(modules_, options_.policy);
    if (decision.cast) {
      cast(decision);
    } else {
      requantise(decision);
    }
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!outputs_[i].input_scale.empty()) write_float(outputs_[i].input_scale, 1.0F);
      if (outputs_[i].scales.empty()) continue;
      records.push_back(make_module_record(modules_[i].scan, decision.max_exponent));
      records.back().name = modules_[i].name;
      records.back().action = action_name(decision);
    }
  }

 private:
  // A cast keeps the nibbles, so they are copied in the same pass; a requantisation overwrites them later.
  void scan() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const ModulePlan& plan = expert_.modules[members_[i]];
      ScannedModule module{
          plan.name, plan.groups_per_row, placed(inputs_, plan.nibbles), placed(inputs_, plan.scales), {}};
      if (outputs_[i].nibbles.empty()) {
        scan_mxfp4(module.nibbles, module.scales, module.scan);
      } else {
        copy_and_scan_mxfp4(module.nibbles, module.scales, outputs_[i].nibbles, module.scan);
      }
      modules_.push_back(std::move(module));
    }
  }

  void cast(const ScaleDecision& decision) const {
    const CastTable table = make_cast_table(decision.max_exponent);
    const float tensor_scale = uses_divisor(options_.conversion.layout)
                                   ? cast_global_scale(decision.max_exponent)
                                   : cast_scale_2(decision.max_exponent);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!outputs_[i].scales.empty()) expand_scales(modules_[i].scales, table, outputs_[i].scales);
      if (!outputs_[i].tensor_scale.empty()) write_float(outputs_[i].tensor_scale, tensor_scale);
    }
  }

  void requantise(const ScaleDecision& decision) const {
    const Requantiser requantiser(decision.method, decision.set);
    const float tensor_scale =
        uses_divisor(options_.conversion.layout) ? requantiser.global_scale() : requantiser.scale_2();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const ModuleOutputs& output = outputs_[i];
      if (!output.tensor_scale.empty()) write_float(output.tensor_scale, tensor_scale);
      if (output.nibbles.empty() && output.scales.empty()) continue;
      std::vector<std::byte> elsewhere;  // for the half of the result that another unit writes
      std::span<std::byte> nibbles = output.nibbles;
      std::span<std::byte> blocks = output.scales;
      if (nibbles.empty() || blocks.empty()) {
        elsewhere.resize(nibbles.empty() ? modules_[i].nibbles.size() : 2 * modules_[i].scales.size());
        (nibbles.empty() ? nibbles : blocks) = elsewhere;
      }
      requantiser.convert(modules_[i].nibbles, modules_[i].scales, nibbles, blocks);
    }
  }

  const ExpertUnit& expert_;
  const std::vector<std::size_t> members_;
  const Inputs inputs_;
  const ComputeOptions& options_;
  std::vector<ModuleOutputs> outputs_;
  std::vector<ScannedModule> modules_;
};

void convert_from_mxfp4(const ExpertUnit& expert, Inputs inputs, std::span<std::byte> out,
                        const ComputeOptions& options, std::vector<ModuleRecord>& records) {
  std::vector<std::size_t> pair;
  for (std::size_t i = 0; i < expert.modules.size(); ++i) {
    if (expert.modules[i].projection == Projection::kW2) {
      Mxfp4Set(expert, {i}, inputs, out, options).convert(records);
    } else {
      pair.push_back(i);
    }
  }
  if (!pair.empty()) Mxfp4Set(expert, std::move(pair), inputs, out, options).convert(records);
}

// From NVFP4: nibbles and block scales stay, the tensor scale is turned round if the layouts differ.
class Nvfp4Module {
 public:
  Nvfp4Module(const ModulePlan& plan, const ModuleOutputs& outputs, Inputs inputs,
              const ComputeOptions& options)
      : plan_(plan), outputs_(outputs), inputs_(inputs), options_(options) {}

  void convert(std::vector<ModuleRecord>& records) const {
    const float scale = read_float(inputs_, plan_.tensor_scale, plan_.name);
    const bool rounded = is_rounded(scale);
    if (!outputs_.nibbles.empty()) copy(plan_.nibbles, outputs_.nibbles);
    if (!outputs_.tensor_scale.empty()) write_float(outputs_.tensor_scale, turned(scale));
    if (!outputs_.input_scale.empty()) write_float(outputs_.input_scale, input_scale());
    if (outputs_.scales.empty()) return;
    if (options_.conversion.layout == Layout::kMxfp4) {
      contract(scale);
    } else {
      copy(plan_.scales, outputs_.scales);
    }
    ModuleRecord record;
    record.name = plan_.name;
    record.action = rounded ? "transcode-rounded" : "transcode";
    record.groups = plan_.nibbles.length / 16;
    records.push_back(std::move(record));
  }

 private:
  void copy(const Placement& from, std::span<std::byte> to) const {
    std::memcpy(to.data(), placed(inputs_, from).data(), to.size());
  }

  bool source_is_divisor() const {
    return options_.conversion.source == ExpertFormat::kNvfp4CompressedTensors;
  }

  // ModelOpt multiplies by the tensor scale, compressed-tensors divides by it.
  float turned(float value) const {
    return source_is_divisor() == uses_divisor(options_.conversion.layout) ? value : 1.0F / value;
  }

  // True if the tensor scale has to be turned round and its reciprocal is not exact.
  bool is_rounded(float scale) const {
    if (options_.conversion.layout == Layout::kMxfp4 || turned(scale) == scale || is_power_of_two(scale))
      return false;
    if (options_.inexact_scale == InexactScale::kFail) {
      fail(ErrorCode::kLossy,
           "{}: its tensor scale {} is no power of two, so its reciprocal is rounded in the other layout; "
           "--inexact-scale round accepts that (at most one unit in the last place)",
           plan_.name, scale);
    }
    return true;
  }

  float input_scale() const {
    if (plan_.input_scale.length == 0) return 1.0F;
    return turned(read_float(inputs_, plan_.input_scale, plan_.name));
  }

  void contract(float scale) const {
    if (!is_power_of_two(scale)) {
      fail(ErrorCode::kLossy,
           "{}: its tensor scale {} is no power of two; it was not made by a lossless cast and "
           "cannot go back to MXFP4",
           plan_.name, scale);
    }
    const int exponent = std::ilogb(scale);
    const std::span<const std::byte> blocks = placed(inputs_, plan_.scales);
    const std::int64_t bad =
        contract_scales(blocks, source_is_divisor() ? -exponent : exponent, outputs_.scales);
    if (bad >= 0) {
      const auto group = static_cast<std::uint64_t>(bad);
      fail(ErrorCode::kLossy,
           "{} row {} group {}: block scales 0x{:02x} 0x{:02x} are not one power of two twice; it was not "
           "made by a "
           "lossless cast and cannot go back to MXFP4",
           plan_.name, group / plan_.groups_per_row, group % plan_.groups_per_row,
           static_cast<int>(blocks[2 * group]), static_cast<int>(blocks[2 * group + 1]));
    }
  }

  const ModulePlan& plan_;
  const ModuleOutputs outputs_;
  const Inputs inputs_;
  const ComputeOptions& options_;
};

void convert_fp8(const Fp8Slice& slice, std::span<const std::byte> input, std::span<std::byte> out) {
  const std::uint64_t column_tiles = (slice.columns + kFp8Tile - 1) / kFp8Tile;
  const std::uint64_t row_tiles = (slice.rows + kFp8Tile - 1) / kFp8Tile;
  const std::span<float> scales =
      std::span(*slice.scales).subspan(slice.first_row / kFp8Tile * column_tiles, row_tiles * column_tiles);
  const std::int64_t bad = quantise_fp8_blocks(input, slice.rows, slice.columns, out, scales);
  if (bad >= 0) {
    const auto index = static_cast<std::uint64_t>(bad);
    fail(ErrorCode::kUnsupported, "{} row {} column {} is NaN or infinite; FP8 cannot hold it", slice.tensor,
         slice.first_row + index / slice.columns, index % slice.columns);
  }
}

}  // namespace

std::vector<ModuleRecord> compute_unit(const Unit& unit, Inputs inputs, std::span<std::byte> out,
                                       const ComputeOptions& options) {
  std::vector<ModuleRecord> records;
  if (std::holds_alternative<CopyUnit>(unit.work)) {
    std::memcpy(out.data(), inputs[0].data(), out.size());
  } else if (const auto* slice = std::get_if<Fp8Slice>(&unit.work)) {
    convert_fp8(*slice, inputs[0], out);
  } else if (const auto* expert = std::get_if<ExpertUnit>(&unit.work)) {
    if (options.conversion.source == ExpertFormat::kMxfp4) {
      convert_from_mxfp4(*expert, inputs, out, options, records);
    } else {
      for (std::size_t i = 0; i < expert->modules.size(); ++i) {
        Nvfp4Module(expert->modules[i], module_outputs(*expert, i, out), inputs, options).convert(records);
      }
    }
  }
  return records;
}

void write_fp8_scales(const Fp8Scales& work, std::span<std::byte> out) {
  std::memcpy(out.data(), work.scales->data(), out.size());
}

}  // namespace perigee
