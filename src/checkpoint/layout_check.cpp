#include "checkpoint/layout_check.h"

#include <map>

#include "base/error.h"
#include "checkpoint/schema.h"
#include "checkpoint/tensor_name.h"

namespace perigee {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::uint64_t kFp8Tile = 128;
constexpr std::uint64_t tiles_of(std::uint64_t length) {
  return length / kFp8Tile + (length % kFp8Tile != 0);
}

// [12288, 1, 4] and [12288, 4] are the same tensor to every loader.
Shape without_unit_dimensions(const Shape& shape) {
  Shape kept;
  for (const std::uint64_t length : shape) {
    if (length != 1) kept.push_back(length);
  }
  return kept;
}

bool is_float(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32;
}

std::string wrong(const TensorInfo& tensor, const std::string& right) {
  return fmt::format("{} is {} {}; config.json asks for {}", tensor.name, dtype_name(tensor.dtype),
                     shape_text(tensor.shape), right);
}

// `packed` is the released [out, in/2] tensor of the module.
std::optional<std::string> expert_fault(const TensorInfo& tensor, Part part, const TensorInfo& packed) {
  const std::uint64_t out = packed.shape[0];
  const std::uint64_t in = packed.shape[1] * 2;
  const auto require = [&](bool type_is_right, const Shape& shape,
                           const char* type) -> std::optional<std::string> {
    if (type_is_right && tensor.shape == shape) return std::nullopt;
    return wrong(tensor, fmt::format("{} {}", type, shape_text(shape)));
  };
  switch (part) {
    case Part::kWeight:
    case Part::kWeightPacked:
      return require(tensor.dtype == DType::kU8, packed.shape, "U8");
    case Part::kWeightScale:
      if (tensor.dtype == DType::kF8E4M3) return require(true, {out, in / 16}, "F8_E4M3");
      return require(tensor.dtype == DType::kU8 || tensor.dtype == DType::kF8E8M0, {out, in / 32}, "U8");
    default:
      if (tensor.dtype == DType::kF32 && tensor.elements() == 1) return std::nullopt;
      return wrong(tensor, "F32 []");
  }
}

}  // namespace

LayoutCheck::LayoutCheck(const K3Config& config) {
  for (SchemaShard& shard : released_layout(config)) {
    for (TensorInfo& tensor : shard.tensors) {
      std::string name = tensor.name;
      expected_.emplace(std::move(name), std::move(tensor));
    }
  }
}

std::optional<std::string> LayoutCheck::fault_of(const TensorInfo& tensor) const {
  const TensorName name = parse_tensor_name(tensor.name);
  const bool expert = name.tensor_class == TensorClass::kExpert;
  const bool fp8_scale = !expert && name.part == Part::kWeightScale;
  std::string key = tensor.name;
  if (expert) key = std::string(name.module) + ".weight_packed";
  if (fp8_scale) key = std::string(name.module) + ".weight";
  const auto found = expected_.find(key);
  if (found == expected_.end()) {
    return fmt::format("{} has no place in the layout that config.json describes", tensor.name);
  }
  const TensorInfo& expected = found->second;
  if (expert) return expert_fault(tensor, name.part, expected);
  if (fp8_scale) {
    const Shape tiles = {tiles_of(expected.shape[0]), tiles_of(expected.shape.back())};
    if (tensor.dtype == DType::kF32 &&
        without_unit_dimensions(tensor.shape) == without_unit_dimensions(tiles)) {
      return std::nullopt;
    }
    return wrong(tensor, fmt::format("F32 [{}, 1, {}, 1]", tiles[0], tiles[1]));
  }
  if (tensor.name.ends_with("self_attn.A_log")) return std::nullopt;
  const bool type_is_right = is_float(tensor.dtype) || tensor.dtype == DType::kF8E4M3;
  if (type_is_right && without_unit_dimensions(tensor.shape) == without_unit_dimensions(expected.shape)) {
    return std::nullopt;
  }
  return wrong(tensor, fmt::format("{} {}", dtype_name(expected.dtype), shape_text(expected.shape)));
}

std::vector<std::string> LayoutCheck::absent_from(const CheckpointIndex& index) const {
  struct Absent {
    std::uint64_t count = 0;
    const std::string* first = nullptr;
  };
  std::map<TensorClass, Absent> absent;
  for (const auto& [expected, tensor] : expected_) {
    if (index.by_name.contains(expected)) continue;
    const TensorName name = parse_tensor_name(expected);
    if (name.part == Part::kWeightPacked && index.by_name.contains(std::string(name.module) + ".weight"))
      continue;
    Absent& entry = absent[name.tensor_class];
    ++entry.count;
    if (!entry.first || expected < *entry.first) entry.first = &expected;
  }
  std::vector<std::string> sentences;
  for (const auto& [tensor_class, entry] : absent) {
    sentences.push_back(
        fmt::format("{} tensors of class {} that config.json asks for are not in the index (first: {})",
                    entry.count, tensor_class_name(tensor_class), *entry.first));
  }
  return sentences;
}

}  // namespace perigee
