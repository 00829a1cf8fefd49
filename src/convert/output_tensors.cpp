#include "convert/output_tensors.h"

#include "base/error.h"
#include "numerics/fp8_block.h"

namespace perigee {
namespace {

constexpr std::uint64_t kMxfp4Group = 32;
constexpr std::uint64_t kNvfp4Block = 16;

TensorInfo tensor(std::string name, DType dtype, std::vector<std::uint64_t> shape) {
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = dtype;
  info.shape = std::move(shape);
  return info;
}

// The spellings of one module's parts in the target layout.
struct PartNames {
  const char* packed;
  const char* tensor_scale;
  const char* input_scale;
  bool scalar_is_vector;  // [1] instead of []
};

PartNames part_names(Layout layout) {
  if (layout == Layout::kCompressedTensors) {
    return {"weight_packed", "weight_global_scale", "input_global_scale", true};
  }
  if (layout == Layout::kMxfp4) return {"weight_packed", "", "", false};
  return {"weight", "weight_scale_2", "input_scale", false};
}

OutputTensor scalar(const std::string& module, const char* part, bool is_vector, Recipe recipe) {
  std::vector<std::uint64_t> shape;
  if (is_vector) shape.push_back(1);
  return {tensor(module + "." + part, DType::kF32, std::move(shape)), recipe};
}

void require_matrix(const TensorInfo& source, std::uint64_t columns_per_unit) {
  if (source.shape.size() == 2 && source.shape[1] % columns_per_unit == 0) return;
  fail(ErrorCode::kUnsupported,
       "{} has shape {}; an expert tensor must be a matrix whose width is a multiple of {}", source.name,
       shape_text(source.shape), columns_per_unit);
}

// Shape of the target's block scales, from the source's.
OutputTensor block_scales(const TensorInfo& source, const Conversion& conversion) {
  const bool from_mxfp4 = conversion.source == ExpertFormat::kMxfp4;
  const bool to_mxfp4 = conversion.layout == Layout::kMxfp4;
  require_matrix(source, from_mxfp4 ? 1 : kMxfp4Group / kNvfp4Block);
  const std::uint64_t groups32 = from_mxfp4 ? source.shape[1] : source.shape[1] / 2;
  return {tensor(source.name, to_mxfp4 ? DType::kU8 : DType::kF8E4M3,
                 {source.shape[0], to_mxfp4 ? groups32 : groups32 * 2}),
          Recipe::kBlockScales};
}

void append_expert_outputs(const TensorInfo& source, const TensorName& name, const Conversion& conversion,
                           std::vector<OutputTensor>& outputs) {
  const std::string module(name.module);
  const PartNames names = part_names(conversion.layout);
  const bool with_input_scale =
      conversion.layout != Layout::kMxfp4 && conversion.activations == Activations::kPlaceholder;
  const auto append_tensor_scales = [&](bool with_placeholder) {
    if (conversion.layout == Layout::kMxfp4) return;
    outputs.push_back(scalar(module, names.tensor_scale, names.scalar_is_vector, Recipe::kTensorScale));
    if (with_placeholder) {
      outputs.push_back(scalar(module, names.input_scale, names.scalar_is_vector, Recipe::kInputScale));
    }
  };
  switch (name.part) {
    case Part::kWeight:
    case Part::kWeightPacked:
      require_matrix(source, kMxfp4Group / 2);
      outputs.push_back(
          {tensor(module + "." + names.packed, DType::kU8, source.shape), Recipe::kPackedNibbles});
      return;
    case Part::kWeightScale:
      outputs.push_back(block_scales(source, conversion));
      if (conversion.source == ExpertFormat::kMxfp4) append_tensor_scales(with_input_scale);
      return;
    case Part::kWeightScale2:
    case Part::kWeightGlobalScale:
      append_tensor_scales(with_input_scale && !conversion.source_has_input_scale);
      return;
    case Part::kInputScale:
    case Part::kInputGlobalScale:
      if (with_input_scale) {
        outputs.push_back(scalar(module, names.input_scale, names.scalar_is_vector, Recipe::kInputScale));
      }
      return;
    case Part::kOther:
      break;
  }
  fail(ErrorCode::kUnsupported, "{}: no layout has such a tensor in an expert", source.name);
}

bool is_attention_linear(const TensorName& name) {
  return name.tensor_class == TensorClass::kKdaLinear || name.tensor_class == TensorClass::kMlaLinear;
}

void append_fp8_outputs(const TensorInfo& source, const TensorName& name,
                        std::vector<OutputTensor>& outputs) {
  if (source.dtype != DType::kBF16 || source.shape.size() != 2) {
    fail(ErrorCode::kUnsupported, "{} is {} {}; layout nvidia-mixed makes FP8 only from BF16 matrices",
         source.name, dtype_name(source.dtype), shape_text(source.shape));
  }
  const std::uint64_t row_tiles = (source.shape[0] + kFp8Tile - 1) / kFp8Tile;
  const std::uint64_t column_tiles = (source.shape[1] + kFp8Tile - 1) / kFp8Tile;
  outputs.push_back({tensor(source.name, DType::kF8E4M3, source.shape), Recipe::kFp8Weight});
  outputs.push_back(
      {tensor(std::string(name.module) + ".weight_scale", DType::kF32, {row_tiles, 1, column_tiles, 1}),
       Recipe::kFp8Scale});
}

}  // namespace

std::vector<OutputTensor> output_tensors(const TensorInfo& source, const Conversion& conversion) {
  const TensorName name = parse_tensor_name(source.name);
  std::vector<OutputTensor> outputs;
  if (name.tensor_class == TensorClass::kExpert) {
    append_expert_outputs(source, name, conversion, outputs);
  } else if (is_attention_linear(name) && source.dtype == DType::kF8E4M3 &&
             conversion.layout != Layout::kNvidiaMixed) {
    fail(ErrorCode::kUnsupported, "{} is FP8 already; only --layout nvidia-mixed can carry it", source.name);
  } else if (is_attention_linear(name) && name.part == Part::kWeight && source.dtype != DType::kF8E4M3 &&
             conversion.layout == Layout::kNvidiaMixed) {
    append_fp8_outputs(source, name, outputs);
  } else {
    outputs.push_back({source, Recipe::kCopy});
  }
  return outputs;
}

}  // namespace perigee
