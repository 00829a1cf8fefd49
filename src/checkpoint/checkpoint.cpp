#include "checkpoint/checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/json_text.h"

namespace perigee {
namespace {

std::uint32_t shard_number(const CheckpointIndex& index, const std::string& file_name) {
  const auto found = std::lower_bound(index.shards.begin(), index.shards.end(), file_name);
  if (found == index.shards.end() || *found != file_name)
    fail(ErrorCode::kNotFound, "the index names no file {}", quoted_name(file_name));
  return static_cast<std::uint32_t>(found - index.shards.begin());
}

void check_file_against_index(const ShardHeader& shard, const CheckpointIndex& index,
                              const std::string& origin) {
  for (const TensorInfo& tensor : shard.header.tensors) {
    const std::string* indexed = index.shard_of(tensor.name);
    if (indexed == nullptr) {
      fail(ErrorCode::kCorrupt, "{}: tensor {} is in the file but not in the index", origin,
           quoted_name(tensor.name));
    }
    if (*indexed != shard.file_name) {
      fail(ErrorCode::kCorrupt, "{}: tensor {} is in this file, but the index says it is in {}", origin,
           quoted_name(tensor.name), *indexed);
    }
  }
}

void check_index_against_file(const CheckpointIndex& index, std::uint32_t number, const ShardHeader& shard,
                              const std::string& origin) {
  for (const IndexEntry& entry : index.entries) {
    if (entry.shard == number && shard.header.find(entry.name) == nullptr) {
      fail(ErrorCode::kCorrupt, "{}: tensor {} should be in this file according to the index, but is not",
           origin, quoted_name(entry.name));
    }
  }
}

bool is_packed(const TensorName& name, const TensorInfo& tensor) {
  return name.part == Part::kWeightPacked || (name.part == Part::kWeight && tensor.dtype == DType::kU8);
}

// The tensors of one expert module that a header holds; each null if absent.
struct ModuleParts {
  std::string_view module;
  const TensorInfo* weight = nullptr;
  const TensorInfo* packed = nullptr;
  const TensorInfo* scale = nullptr;
  const TensorInfo* scale_2 = nullptr;
  const TensorInfo* global_scale = nullptr;
  const TensorInfo* input_scale = nullptr;
  const TensorInfo* input_global_scale = nullptr;

  // Null for a part that no format has.
  const TensorInfo** slot(Part part) {
    switch (part) {
      case Part::kWeight:
        return &weight;
      case Part::kWeightPacked:
        return &packed;
      case Part::kWeightScale:
        return &scale;
      case Part::kWeightScale2:
        return &scale_2;
      case Part::kWeightGlobalScale:
        return &global_scale;
      case Part::kInputScale:
        return &input_scale;
      case Part::kInputGlobalScale:
        return &input_global_scale;
      case Part::kOther:
        return nullptr;
    }
    return nullptr;
  }

  bool has_any(std::initializer_list<const TensorInfo*> parts) const {
    return std::any_of(parts.begin(), parts.end(), [](const TensorInfo* part) { return part != nullptr; });
  }
};

// A byte holds two weights; a scale byte covers `group` weights of a row.
bool fits(const TensorInfo* packed, const TensorInfo* scale, std::uint64_t group) {
  if (packed == nullptr || scale == nullptr || packed->dtype != DType::kU8) return false;
  if (packed->shape.size() != 2 || scale->shape.size() != 2) return false;
  return packed->shape[0] == scale->shape[0] && packed->shape[1] % (group / 2) == 0 &&
         packed->shape[1] / (group / 2) == scale->shape[1];
}

bool is_f32_scalar(const TensorInfo* tensor) {
  return tensor != nullptr && tensor->dtype == DType::kF32 && tensor->elements() == 1;
}

bool is_mxfp4(const ModuleParts& parts) {
  return fits(parts.packed, parts.scale, 32) &&
         (parts.scale->dtype == DType::kU8 || parts.scale->dtype == DType::kF8E8M0) &&
         !parts.has_any(
             {parts.weight, parts.scale_2, parts.global_scale, parts.input_scale, parts.input_global_scale});
}

bool is_nvfp4_modelopt(const ModuleParts& parts) {
  return fits(parts.weight, parts.scale, 16) && parts.scale->dtype == DType::kF8E4M3 &&
         is_f32_scalar(parts.scale_2) &&
         !parts.has_any({parts.packed, parts.global_scale, parts.input_global_scale});
}

bool is_nvfp4_compressed_tensors(const ModuleParts& parts) {
  return fits(parts.packed, parts.scale, 16) && parts.scale->dtype == DType::kF8E4M3 &&
         is_f32_scalar(parts.global_scale) &&
         !parts.has_any({parts.weight, parts.scale_2, parts.input_scale});
}

std::string describe(const ModuleParts& parts) {
  std::string text;
  for (const TensorInfo* tensor : {parts.weight, parts.packed, parts.scale, parts.scale_2, parts.global_scale,
                                   parts.input_scale, parts.input_global_scale}) {
    if (tensor == nullptr) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} {}", tensor->name.substr(parts.module.size() + 1), dtype_name(tensor->dtype),
                        shape_text(tensor->shape));
  }
  return text;
}

ExpertFormat format_of(const ModuleParts& parts, const std::string& origin) {
  if (is_mxfp4(parts)) return ExpertFormat::kMxfp4;
  if (is_nvfp4_modelopt(parts)) return ExpertFormat::kNvfp4ModelOpt;
  if (is_nvfp4_compressed_tensors(parts)) return ExpertFormat::kNvfp4CompressedTensors;
  fail(ErrorCode::kUnsupported,
       "{}: expert module {} has {}; that is neither MXFP4 nor NVFP4, or some of its tensors are in another "
       "file",
       origin, parts.module, describe(parts));
}

// In the order of the file.
std::vector<ModuleParts> expert_modules_of(const SafetensorsHeader& header) {
  std::vector<ModuleParts> modules;
  std::unordered_map<std::string_view, std::size_t, NameHash> numbers;
  for (const TensorInfo& tensor : header.tensors) {
    const TensorName name = parse_tensor_name(tensor.name);
    if (name.tensor_class != TensorClass::kExpert) continue;
    const auto [found, is_new] = numbers.try_emplace(name.module, modules.size());
    if (is_new) {
      modules.emplace_back();
      modules.back().module = name.module;
    }
    const TensorInfo** slot = modules[found->second].slot(name.part);
    if (slot != nullptr) *slot = &tensor;
  }
  return modules;
}

}  // namespace

ShardHeader read_shard_header(const std::filesystem::path& checkpoint, const CheckpointIndex& index,
                              const std::string& file_name) {
  const std::uint32_t number = shard_number(index, file_name);
  const std::filesystem::path path = checkpoint / file_name;
  std::error_code ignored;
  if (std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found) {
    fail(ErrorCode::kNotFound, "{} is named in the index but does not exist; download it", path.string());
  }
  const File file = File::open_read(path);
  ShardHeader shard;
  shard.file_name = file_name;
  shard.file_bytes = file.size();
  shard.modified_ns = file.modified_ns();
  shard.header = read_safetensors_header(file);
  check_file_against_index(shard, index, path.string());
  check_index_against_file(index, number, shard, path.string());
  return shard;
}

void Inventory::add(const TensorInfo& tensor) {
  const TensorName name = parse_tensor_name(tensor.name);
  ClassTotals& totals = by_class[static_cast<int>(name.tensor_class)];
  totals.tensors += 1;
  totals.bytes += tensor.bytes();
  tensors += 1;
  bytes += tensor.bytes();
  if (name.tensor_class == TensorClass::kUnknown) unknown.push_back(tensor.name);
  if (name.tensor_class != TensorClass::kExpert) return;
  if (is_packed(name, tensor)) {
    expert_modules += 1;
    experts += name.projection == Projection::kW1 ? 1 : 0;
  }
  const bool has_exponents = tensor.dtype == DType::kU8 || tensor.dtype == DType::kF8E8M0;
  if (name.part == Part::kWeightScale && has_exponents) mxfp4_blocks += tensor.elements();
}

ExpertFormat detect_expert_format(const SafetensorsHeader& header, const std::string& origin) {
  ExpertFormat format = ExpertFormat::kNone;
  std::string_view first;
  for (const ModuleParts& parts : expert_modules_of(header)) {
    const ExpertFormat found = format_of(parts, origin);
    if (format == ExpertFormat::kNone) {
      format = found;
      first = parts.module;
    } else if (found != format) {
      fail(ErrorCode::kCorrupt, "{}: expert module {} is stored as {}, but {} as {}", origin, first,
           expert_format_name(format), parts.module, expert_format_name(found));
    }
  }
  return format;
}

}  // namespace perigee
