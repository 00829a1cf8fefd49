#include "checkpoint/block_view.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "checkpoint/index.h"
#include "checkpoint/plain_values.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_name.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMxfp4Group = 32;
constexpr std::uint64_t kNvfp4Block = 16;
constexpr std::uint64_t kFp8Tile = 128;
constexpr std::uint64_t kPlainGroup = 16;

std::uint64_t divide_up(std::uint64_t length, std::uint64_t part) {
  return length / part + (length % part != 0);
}

// Opens shards as they are asked for.
class Tensors {
 public:
  explicit Tensors(const fs::path& checkpoint)
      : checkpoint_(checkpoint), index_(load_checkpoint_index(checkpoint)) {}

  bool contains(const std::string& name) const { return index_.by_name.contains(name); }

  const TensorInfo& info(const std::string& name) { return *shard_of(name).header.find(name); }

  std::vector<std::byte> read(const std::string& name, std::uint64_t offset, std::uint64_t length) {
    const SafetensorsFile& shard = shard_of(name);
    const TensorInfo& tensor = *shard.header.find(name);
    if (offset > tensor.bytes() || length > tensor.bytes() - offset) {
      fail(ErrorCode::kCorrupt, "{} {} is too small for its module: bytes {} to {} are asked for", name,
           shape_text(tensor.shape), offset, offset + length);
    }
    std::vector<std::byte> bytes(length);
    shard.file.read_exact(bytes, shard.position(tensor) + offset);
    return bytes;
  }

  float read_float(const std::string& name, std::uint64_t index) {
    if (info(name).dtype != DType::kF32) fail(ErrorCode::kUnsupported, "{} is not F32", name);
    float value = 0;
    std::memcpy(&value, read(name, index * sizeof value, sizeof value).data(), sizeof value);
    return value;
  }

  [[noreturn]] void fail_not_found(const std::string& name) const {
    std::string similar;
    std::size_t shown = 0;
    for (const IndexEntry& entry : index_.entries) {
      if (shown == 3 || entry.name.find(name) == std::string::npos) continue;
      similar += (shown++ == 0 ? "; similar names: " : ", ") + entry.name;
    }
    fail(ErrorCode::kNotFound, "{} has no tensor or module {}{}", checkpoint_.string(), name, similar);
  }

 private:
  const SafetensorsFile& shard_of(const std::string& name) {
    const std::string& file_name = *index_.shard_of(name);
    auto [entry, inserted] = shards_.try_emplace(file_name);
    if (inserted) entry->second = SafetensorsFile::open(checkpoint_ / file_name);
    if (!entry->second.header.find(name)) {
      fail(ErrorCode::kCorrupt, "the index places {} in {}, which lacks it", name, file_name);
    }
    return entry->second;
  }

  const fs::path& checkpoint_;
  const CheckpointIndex index_;
  std::map<std::string, SafetensorsFile> shards_;
};

// Reads one row of one tensor, block by block.
class Viewer {
 public:
  Viewer(Tensors& tensors, const BlockRequest& request) : tensors_(tensors), request_(request) {}

  BlockView view() {
    choose_tensors();
    lay_out();
    check_range();
    const std::uint64_t end =
        request_.group + std::min(request_.count, view_.groups_per_row - request_.group);
    for (std::uint64_t group = request_.group; group < end; ++group) add_block(group);
    return std::move(view_);
  }

 private:
  void choose_tensors();
  void choose_expert_tensors(const std::string& module);
  void lay_out();
  void check_range() const;
  void check_scales() const;
  void add_block(std::uint64_t group);
  void add_nibbles(Block& block);
  void add_fp8(Block& block);
  void add_plain(Block& block);

  Tensors& tensors_;
  const BlockRequest& request_;
  BlockView view_;
};

void Viewer::choose_tensors() {
  const TensorName name = parse_tensor_name(request_.name);
  const bool is_tensor = tensors_.contains(request_.name);
  const bool is_scalar_part =
      name.part != Part::kWeight && name.part != Part::kWeightPacked && name.part != Part::kWeightScale;
  const std::string module = is_tensor ? std::string(name.module) : request_.name;
  const bool quantised = tensors_.contains(module + ".weight_scale");
  if (!is_tensor && !quantised && !tensors_.contains(module + ".weight"))
    tensors_.fail_not_found(request_.name);
  view_.tensor = is_tensor ? request_.name : module + ".weight";
  if (!quantised || (is_tensor && is_scalar_part)) return;
  view_.scale_tensor = module + ".weight_scale";
  if (tensors_.contains(module + ".weight") && tensors_.info(module + ".weight").dtype == DType::kF8E4M3) {
    if (is_tensor && name.part == Part::kWeightScale) {
      view_.scale_tensor.clear();  // the tile scales themselves, as plain floats
      return;
    }
    view_.kind = BlockKind::kFp8;
    view_.tensor = module + ".weight";
  } else {
    choose_expert_tensors(module);
  }
}

void Viewer::choose_expert_tensors(const std::string& module) {
  view_.tensor = module + (tensors_.contains(module + ".weight_packed") ? ".weight_packed" : ".weight");
  if (!tensors_.contains(view_.tensor)) {
    fail(ErrorCode::kCorrupt, "{} has scales but neither weight nor weight_packed", module);
  }
  if (tensors_.info(view_.scale_tensor).dtype != DType::kF8E4M3) {
    view_.kind = BlockKind::kMxfp4;
    return;
  }
  view_.kind = BlockKind::kNvfp4;
  view_.tensor_scale_divides = tensors_.contains(module + ".weight_global_scale");
  view_.tensor_scale_name =
      module + (view_.tensor_scale_divides ? ".weight_global_scale" : ".weight_scale_2");
  if (!tensors_.contains(view_.tensor_scale_name)) {
    fail(ErrorCode::kCorrupt, "{} has E4M3 block scales but neither weight_scale_2 nor weight_global_scale",
         module);
  }
  view_.tensor_scale = tensors_.read_float(view_.tensor_scale_name, 0);
}

void Viewer::lay_out() {
  const TensorInfo& tensor = tensors_.info(view_.tensor);
  view_.dtype = tensor.dtype;
  view_.shape = tensor.shape;
  view_.columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  view_.rows = view_.columns == 0 ? 0 : tensor.elements() / view_.columns;
  switch (view_.kind) {
    case BlockKind::kMxfp4:
      view_.group_size = kMxfp4Group;
      break;
    case BlockKind::kNvfp4:
      view_.group_size = kNvfp4Block;
      break;
    case BlockKind::kFp8:
      view_.group_size = kFp8Tile;
      break;
    case BlockKind::kPlain:
      view_.group_size = kPlainGroup;
      break;
  }
  if (view_.kind == BlockKind::kMxfp4 || view_.kind == BlockKind::kNvfp4) {
    const bool halves = tensor.dtype == DType::kU8;  // F4 counts elements already
    if (halves) view_.columns *= 2;
  }
  view_.groups_per_row = divide_up(view_.columns, view_.group_size);
  view_.row = request_.row;
  check_scales();
}

void Viewer::check_scales() const {
  if (view_.kind == BlockKind::kPlain) return;
  const TensorInfo& scale = tensors_.info(view_.scale_tensor);
  std::uint64_t expected = view_.groups_per_row * view_.rows;
  bool whole = view_.shape.size() == 2 && dtype_bits(scale.dtype) == 8;
  if (view_.kind == BlockKind::kFp8) {
    expected = view_.groups_per_row * divide_up(view_.rows, kFp8Tile);
    whole = view_.shape.size() == 2 && scale.dtype == DType::kF32;
  } else {
    whole = whole && view_.columns % view_.group_size == 0 && dtype_bits(view_.dtype) <= 8;
  }
  if (whole && scale.elements() == expected) return;
  fail(ErrorCode::kCorrupt, "{} {} {} does not go with {} {} {}", view_.tensor, dtype_name(view_.dtype),
       shape_text(view_.shape), view_.scale_tensor, dtype_name(scale.dtype), shape_text(scale.shape));
}

void Viewer::check_range() const {
  if (view_.rows == 0 || view_.groups_per_row == 0) {
    fail(ErrorCode::kUsage, "{} {} is empty", view_.tensor, shape_text(view_.shape));
  }
  if (request_.row >= view_.rows) {
    fail(ErrorCode::kUsage, "--row {} is beyond the end of {}; valid rows are 0 to {}", request_.row,
         view_.tensor, view_.rows - 1);
  }
  if (request_.group >= view_.groups_per_row) {
    fail(ErrorCode::kUsage, "--group {} is beyond the end of a row of {}; valid groups of {} are 0 to {}",
         request_.group, view_.tensor, view_.group_size, view_.groups_per_row - 1);
  }
  if (request_.count == 0) fail(ErrorCode::kUsage, "--count must be at least 1");
}

void Viewer::add_block(std::uint64_t group) {
  Block block;
  block.group = group;
  block.first_column = group * view_.group_size;
  switch (view_.kind) {
    case BlockKind::kMxfp4:
    case BlockKind::kNvfp4:
      add_nibbles(block);
      break;
    case BlockKind::kFp8:
      add_fp8(block);
      break;
    case BlockKind::kPlain:
      add_plain(block);
      break;
  }
  view_.blocks.push_back(std::move(block));
}

void Viewer::add_nibbles(Block& block) {
  const std::uint64_t number = view_.row * view_.groups_per_row + block.group;
  const std::uint64_t packed_bytes = view_.group_size / 2;
  block.scale_code = static_cast<std::uint8_t>(tensors_.read(view_.scale_tensor, number, 1)[0]);
  const bool mxfp4 = view_.kind == BlockKind::kMxfp4;
  block.scale = mxfp4 ? e8m0_value(block.scale_code) : e4m3_value(block.scale_code);
  for (const std::byte pair : tensors_.read(view_.tensor, number * packed_bytes, packed_bytes)) {
    block.codes.push_back(
        static_cast<std::uint8_t>(pair & std::byte{15}));  // the even column is the low nibble
    block.codes.push_back(static_cast<std::uint8_t>(pair >> 4));
  }
  for (const std::uint8_t code : block.codes) {
    double value = e2m1_value(code) * block.scale;
    if (view_.tensor_scale)
      value = view_.tensor_scale_divides ? value / *view_.tensor_scale : value * *view_.tensor_scale;
    block.values.push_back(value);
  }
}

void Viewer::add_fp8(Block& block) {
  const std::uint64_t width = std::min(view_.group_size, view_.columns - block.first_column);
  const std::uint64_t tile = view_.row / kFp8Tile * view_.groups_per_row + block.group;
  block.scale = tensors_.read_float(view_.scale_tensor, tile);
  for (const std::byte byte :
       tensors_.read(view_.tensor, view_.row * view_.columns + block.first_column, width)) {
    block.codes.push_back(static_cast<std::uint8_t>(byte));
    block.values.push_back(e4m3_value(block.codes.back()) * block.scale);
  }
}

void Viewer::add_plain(Block& block) {
  const std::uint64_t width = std::min(view_.group_size, view_.columns - block.first_column);
  const std::uint64_t first = view_.row * view_.columns + block.first_column;
  const std::uint64_t element_bytes = plain_element_bytes(view_.tensor, view_.dtype);
  block.values =
      plain_values(view_.dtype, tensors_.read(view_.tensor, first * element_bytes, width * element_bytes));
}

}  // namespace

const char* block_kind_name(BlockKind kind) {
  switch (kind) {
    case BlockKind::kMxfp4:
      return "mxfp4";
    case BlockKind::kNvfp4:
      return "nvfp4";
    case BlockKind::kFp8:
      return "fp8-block";
    case BlockKind::kPlain:
      return "plain";
  }
  return "?";
}

BlockView view_blocks(const fs::path& checkpoint, const BlockRequest& request) {
  Tensors tensors(checkpoint);
  return Viewer(tensors, request).view();
}

}  // namespace perigee
