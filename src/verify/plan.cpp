#include "verify/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace perigee::verifying {
namespace {

using Shape = std::vector<std::uint64_t>;

// Suffixes of a module's tensors.
struct PartNames {
  const char* packed;
  const char* factor;  // empty for MXFP4
  const char* input;
};
PartNames part_names(ExpertFormat format) {
  if (format == ExpertFormat::kNvfp4ModelOpt) return {".weight", ".weight_scale_2", ".input_scale"};
  if (format == ExpertFormat::kNvfp4CompressedTensors) {
    return {".weight_packed", ".weight_global_scale", ".input_global_scale"};
  }
  return {".weight_packed", "", ""};
}

bool is_attention_linear(const TensorName& name) {
  return name.tensor_class == TensorClass::kKdaLinear || name.tensor_class == TensorClass::kMlaLinear;
}

// The tensors of one module on one side.
struct ModuleParts {
  ExpertFormat format = ExpertFormat::kNone;  // kNone: no packed tensor, or one that no format has
  LocatedTensor packed, scales, factor, input;
};

// `find`: name -> LocatedTensor.
template <typename Find>
ModuleParts locate_module(const std::string& module, const Find& find) {
  ModuleParts parts;
  parts.scales = find(module + ".weight_scale");
  const LocatedTensor plain = find(module + ".weight");
  parts.packed = find(module + ".weight_packed");
  // With both there, the tensor scale decides; the other one is then reported as extra.
  if (plain && (!parts.packed || find(module + ".weight_scale_2"))) {
    parts.packed = plain;
    parts.format = ExpertFormat::kNvfp4ModelOpt;
  } else if (parts.packed) {
    const bool is_nvfp4 =
        find(module + ".weight_global_scale") || (parts.scales && parts.scales.info->dtype == DType::kF8E4M3);
    parts.format = is_nvfp4 ? ExpertFormat::kNvfp4CompressedTensors : ExpertFormat::kMxfp4;
  }
  if (parts.format == ExpertFormat::kNone || parts.format == ExpertFormat::kMxfp4) return parts;
  parts.factor = find(module + part_names(parts.format).factor);
  parts.input = find(module + part_names(parts.format).input);
  return parts;
}

class Planner {
 public:
  Planner(TensorCatalog& source, const std::shared_ptr<const CheckedShard>& output,
          const OutputShard& options, FailureList& failures)
      : source_(source), output_(output), options_(options), failures_(failures) {
    plan_.output_format = options.format;
  }

  WorkPlan run() {
    for (const TensorInfo& tensor : output_->header.tensors) {
      const TensorName name = parse_tensor_name(tensor.name);
      if (name.tensor_class == TensorClass::kExpert) {
        plan_expert_tensor(tensor, name);
      } else {
        plan_other(tensor, name);
      }
    }
    if (!options_.source_shard.empty()) check_completeness();
    return std::move(plan_);
  }

 private:
  LocatedTensor find_output(const std::string& name) {
    if (const TensorInfo* info = output_->header.find(name)) return {output_, info};
    if (options_.others == nullptr) return {};
    try {
      return options_.others->find(name);
    } catch (const Error&) {
      return {};  // that file's own check says what is wrong with it
    }
  }
  ModuleParts find_source_module(const std::string& module) {
    return locate_module(module, [this](const std::string& name) { return source_.find(name); });
  }
  ModuleParts find_output_module(const std::string& module) {
    return locate_module(module, [this](const std::string& name) { return find_output(name); });
  }

  void add_failure(const char* check, const std::string& tensor, std::string expected, std::string found,
                   std::string message) {
    VerifyFailure failure;
    failure.check = check;
    failure.file = output_->name;
    failure.tensor = tensor;
    failure.expected = std::move(expected);
    failure.found = std::move(found);
    failure.message = std::move(message);
    failures_.add(std::move(failure));
  }
  void add_extra(const std::string& tensor) {
    add_failure("extra-tensor", tensor, "absent", "present",
                fmt::format("{}: {} comes from no tensor of the source", output_->name, tensor));
  }
  void add_missing(const std::string& tensor, const std::string& why) {
    add_failure("missing-tensor", tensor, "present", "absent",
                fmt::format("{}: {} is missing; {}", output_->name, tensor, why));
  }
  static std::string type_text(DType dtype, const Shape& shape) {
    return fmt::format("{} {}", dtype_name(dtype), shape_text(shape));
  }
  // One of the allowed forms, else a failure.
  bool check_form(const LocatedTensor& tensor, const std::vector<std::pair<DType, Shape>>& allowed) {
    for (const auto& [dtype, shape] : allowed) {
      if (tensor.info->dtype == dtype && tensor.info->shape == shape) return true;
    }
    const std::string expected = type_text(allowed.front().first, allowed.front().second);
    const std::string found = type_text(tensor.info->dtype, tensor.info->shape);
    add_failure(
        "shape", tensor.info->name, expected, found,
        fmt::format("{}: {} is {}, expected {}", tensor.shard->name, tensor.info->name, found, expected));
    return false;
  }

  void plan_expert_tensor(const TensorInfo& tensor, const TensorName& name);
  bool check_module_forms(const ModuleParts& parts, const std::string& module);
  void plan_other(const TensorInfo& tensor, const TensorName& name);
  void plan_fp8(const TensorInfo& tensor, const TensorName& name, const LocatedTensor& source);
  void check_completeness();
  bool is_fp8_now(const std::string& source_name);

  TensorCatalog& source_;
  std::shared_ptr<const CheckedShard> output_;
  const OutputShard& options_;
  FailureList& failures_;
  WorkPlan plan_;
};

void Planner::plan_expert_tensor(const TensorInfo& tensor, const TensorName& name) {
  const std::string module(name.module);
  const ModuleParts output = find_output_module(module);
  const ModuleParts source = find_source_module(module);
  if (output.format == ExpertFormat::kNone || source.format == ExpertFormat::kNone) {
    if (!output.packed && source.packed) {
      add_missing(module + part_names(plan_.output_format).packed,
                  fmt::format("its module has {}", tensor.name));
    } else {
      add_extra(tensor.name);
    }
    return;
  }
  if (tensor.name != output.packed.info->name) {  // the module is planned at its packed tensor
    const bool known = (output.scales && tensor.name == output.scales.info->name) ||
                       (output.factor && tensor.name == output.factor.info->name) ||
                       (output.input && tensor.name == output.input.info->name);
    if (!known) add_extra(tensor.name);
    return;
  }
  if (plan_.output_format == ExpertFormat::kNone) plan_.output_format = output.format;
  if (plan_.source_format == ExpertFormat::kNone) plan_.source_format = source.format;
  if (output.format != plan_.output_format) {
    add_failure("format", tensor.name, expert_format_name(plan_.output_format),
                expert_format_name(output.format),
                fmt::format("{}: {} is stored as {}, other experts as {}", output_->name, module,
                            expert_format_name(output.format), expert_format_name(plan_.output_format)));
    return;
  }
  if (!check_module_forms(output, module) || !check_module_forms(source, module)) return;
  if (!check_form(output.packed, {{DType::kU8, source.packed.info->shape}})) return;
  ModuleWork work;
  work.layer = name.layer;
  work.expert = name.expert;
  work.projection = name.projection;
  work.names = {output.packed.info->name,
                output.packed.shard->name,
                output.scales.info->name,
                output.scales.shard->name,
                output.factor ? output.factor.info->name : std::string(),
                output.factor ? output.factor.shard->name : std::string()};
  work.source_packed = source.packed, work.source_scales = source.scales;
  work.source_factor = source.factor, work.source_input = source.input;
  work.output_packed = output.packed, work.output_scales = output.scales;
  work.output_factor = output.factor, work.output_input = output.input;
  work.source_format = source.format, work.output_format = output.format;
  work.packed_bytes = output.packed.info->bytes();
  work.blocks_per_row = output.packed.info->shape[1] / 8;
  if (work.packed_bytes > 0) plan_.modules.push_back(std::move(work));
}

bool Planner::check_module_forms(const ModuleParts& parts, const std::string& module) {
  const bool is_mxfp4 = parts.format == ExpertFormat::kMxfp4;
  const Shape& shape = parts.packed.info->shape;
  const std::uint64_t bytes_per_scale = is_mxfp4 ? 16 : 8;
  if (parts.packed.info->dtype != DType::kU8 || shape.size() != 2 || shape[1] % 16 != 0) {
    add_failure("shape", parts.packed.info->name, "U8 [rows, a multiple of 16]",
                type_text(parts.packed.info->dtype, shape),
                fmt::format("{}: {} is {}, expected U8 [rows, a multiple of 16]", parts.packed.shard->name,
                            parts.packed.info->name, type_text(parts.packed.info->dtype, shape)));
    return false;
  }
  bool complete = true;
  const auto require = [&](const LocatedTensor& part, const std::string& name,
                           const std::vector<std::pair<DType, Shape>>& allowed) {
    if (!part) {
      add_missing(name, fmt::format("format {} needs it", expert_format_name(parts.format)));
      complete = false;
    } else if (!check_form(part, allowed)) {
      complete = false;
    }
  };
  const Shape scales = {shape[0], shape[1] / bytes_per_scale};
  if (is_mxfp4) {
    require(parts.scales, module + ".weight_scale", {{DType::kU8, scales}, {DType::kF8E8M0, scales}});
    return complete;
  }
  require(parts.scales, module + ".weight_scale", {{DType::kF8E4M3, scales}});
  require(parts.factor, module + part_names(parts.format).factor, {{DType::kF32, {}}, {DType::kF32, {1}}});
  if (parts.input && !check_form(parts.input, {{DType::kF32, {}}, {DType::kF32, {1}}})) complete = false;
  return complete;
}

void Planner::plan_other(const TensorInfo& tensor, const TensorName& name) {
  const LocatedTensor source = source_.find(tensor.name);
  if (!source) {
    const bool may_be_scale = name.part == Part::kWeightScale && is_attention_linear(name);
    const LocatedTensor weight =
        may_be_scale ? find_output(std::string(name.module) + ".weight") : LocatedTensor{};
    if (!weight || weight.info->dtype != DType::kF8E4M3) add_extra(tensor.name);
    return;
  }
  const bool to_fp8 = is_attention_linear(name) && name.part == Part::kWeight &&
                      tensor.dtype == DType::kF8E4M3 && source.info->dtype == DType::kBF16 &&
                      source.info->shape.size() == 2;
  if (to_fp8) {
    plan_fp8(tensor, name, source);
  } else if (check_form({output_, &tensor}, {{source.info->dtype, source.info->shape}}) &&
             tensor.bytes() > 0) {
    plan_.copies.push_back({source, {output_, &tensor}});
  }
}

void Planner::plan_fp8(const TensorInfo& tensor, const TensorName& name, const LocatedTensor& source) {
  if (!check_form({output_, &tensor}, {{DType::kF8E4M3, source.info->shape}})) return;
  const std::string scale_name = std::string(name.module) + ".weight_scale";
  const LocatedTensor scales = find_output(scale_name);
  if (!scales) {
    add_missing(scale_name, "an FP8 weight needs its tile scales");
    return;
  }
  const auto tiles = [](std::uint64_t n) { return n / 128 + (n % 128 != 0 ? 1 : 0); };
  const std::uint64_t rows = tiles(tensor.shape[0]), columns = tiles(tensor.shape[1]);
  if (!check_form(scales, {{DType::kF32, {rows, 1, columns, 1}}, {DType::kF32, {rows, columns}}})) return;
  if (tensor.bytes() > 0) plan_.fp8.push_back({source, {output_, &tensor}, scales});
}

// Whether a plain attention weight of the source is FP8 in the output.
bool Planner::is_fp8_now(const std::string& source_name) {
  const TensorName name = parse_tensor_name(source_name);
  if (!is_attention_linear(name) || name.part != Part::kWeight) return false;
  const LocatedTensor output = find_output(source_name);
  return output && output.info->dtype == DType::kF8E4M3;
}

void Planner::check_completeness() {
  for (const TensorInfo& tensor : source_.shard(options_.source_shard)->header.tensors) {
    for (const std::string& name :
         required_outputs(tensor.name, plan_.output_format, is_fp8_now(tensor.name))) {
      if (find_output(name)) continue;
      add_missing(name, fmt::format("the source has {}", tensor.name));
    }
  }
}

}  // namespace

std::vector<std::string> required_outputs(const std::string& source_name, ExpertFormat format, bool fp8) {
  const TensorName name = parse_tensor_name(source_name);
  const std::string module(name.module);
  if (name.tensor_class != TensorClass::kExpert) {
    if (fp8) return {source_name, module + ".weight_scale"};
    return {source_name};
  }
  const PartNames parts = part_names(format);
  if (name.part == Part::kWeight || name.part == Part::kWeightPacked) return {module + parts.packed};
  if (name.part != Part::kWeightScale) return {};
  if (*parts.factor == '\0') return {module + ".weight_scale"};
  return {module + ".weight_scale", module + parts.factor};
}

WorkPlan plan_work(TensorCatalog& source, const std::shared_ptr<const CheckedShard>& output,
                   const OutputShard& options, FailureList& failures) {
  return Planner(source, output, options, failures).run();
}

}  // namespace perigee::verifying
