#include "pack/planes.h"

#include "base/error.h"
#include "checkpoint/tensor_name.h"
#include "numerics/fp8_block.h"
#include "numerics/nvfp4_block.h"

namespace perigee {
namespace {

constexpr const char* kHeadName = "language_model.lm_head.weight";

TensorInfo derived(const TensorInfo& tensor, const char* part, DType dtype,
                   std::vector<std::uint64_t> shape) {
  TensorInfo info;
  info.name = std::string(parse_tensor_name(tensor.name).module) + part;
  info.dtype = dtype;
  info.shape = std::move(shape);
  return info;
}

}  // namespace

const char* plane_name(Plane plane) {
  switch (plane) {
    case Plane::kAttention:
      return "attention";
    case Plane::kShared:
      return "shared";
    case Plane::kLatent:
      return "latent";
    case Plane::kHead:
      return "head";
  }
  return "";
}

const char* plane_format_name(PlaneFormat format) {
  switch (format) {
    case PlaneFormat::kBf16:
      return "bf16";
    case PlaneFormat::kFp8:
      return "fp8";
    case PlaneFormat::kNvfp4:
      return "nvfp4";
  }
  return "";
}

std::optional<Plane> plane_of_class(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::kKdaLinear:
    case TensorClass::kMlaLinear:
      return Plane::kAttention;
    case TensorClass::kSharedExperts:
      return Plane::kShared;
    case TensorClass::kLatent:
      return Plane::kLatent;
    case TensorClass::kEmbedding:
      return Plane::kHead;
    default:
      return std::nullopt;
  }
}

std::optional<Plane> plane_of(const TensorInfo& tensor) {
  const TensorName name = parse_tensor_name(tensor.name);
  if (name.part != Part::kWeight || tensor.shape.size() != 2) return std::nullopt;
  if (name.tensor_class == TensorClass::kEmbedding && tensor.name != kHeadName) return std::nullopt;
  return plane_of_class(name.tensor_class);
}

PlaneFormat format_for(const TensorInfo& tensor, PlaneFormat wanted) {
  if (wanted == PlaneFormat::kBf16) return wanted;
  const bool is_there =
      wanted == PlaneFormat::kFp8 ? tensor.dtype == DType::kF8E4M3 : tensor.dtype == DType::kU8;
  if (is_there) return PlaneFormat::kBf16;
  if (tensor.dtype != DType::kBF16) {
    fail(ErrorCode::kUnsupported, "{} is {}; only BF16 can become {}, so leave its plane as it is",
         tensor.name, dtype_name(tensor.dtype), plane_format_name(wanted));
  }
  const bool whole_blocks = wanted == PlaneFormat::kFp8 || tensor.shape[1] % kNvfp4Block == 0;
  return whole_blocks ? wanted : PlaneFormat::kBf16;
}

std::vector<TensorInfo> stored_tensors(const TensorInfo& tensor, PlaneFormat format) {
  if (format == PlaneFormat::kBf16) return {tensor};
  const std::uint64_t rows = tensor.shape[0], columns = tensor.shape[1];
  if (format == PlaneFormat::kFp8) {
    const auto tiles = [](std::uint64_t length) { return (length + kFp8Tile - 1) / kFp8Tile; };
    return {derived(tensor, ".weight", DType::kF8E4M3, {rows, columns}),
            derived(tensor, ".weight_scale", DType::kF32, {tiles(rows), 1, tiles(columns), 1})};
  }
  return {derived(tensor, ".weight", DType::kU8, {rows, columns / 2}),
          derived(tensor, ".weight_scale", DType::kF8E4M3, {rows, columns / kNvfp4Block}),
          derived(tensor, ".weight_scale_2", DType::kF32, {})};
}

}  // namespace perigee
