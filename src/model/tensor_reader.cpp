#include "model/tensor_reader.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "base/file.h"
#include "base/huge_pages.h"
#include "base/parallel_read.h"
#include "checkpoint/plain_values.h"
#include "checkpoint/tensor_name.h"
#include "experts/nibble_form.h"

namespace perigee {
namespace {

using Shape = std::vector<std::uint64_t>;

std::uint64_t tiles(std::size_t length) {
  return (length + 127) / 128;
}

void check_shape(const TensorInfo& tensor, const Shape& expected) {
  if (tensor.shape != expected) {
    fail(ErrorCode::kUnsupported, "{} has shape {}, but config.json asks for {}", tensor.name,
         shape_text(tensor.shape), shape_text(expected));
  }
}

[[noreturn]] void fail_type(const TensorInfo& tensor, const char* wanted) {
  fail(ErrorCode::kUnsupported, "{} is of type {}; {} is what this program can run", tensor.name,
       dtype_name(tensor.dtype), wanted);
}

}  // namespace

void WeightArena::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

std::byte* WeightArena::allocate(std::size_t bytes) {
  const std::size_t rounded = align_up(std::max<std::size_t>(bytes, 1), kAlignment);
  if (rounded > left_) {
    const std::size_t wanted = std::max(rounded, piece_);
    const std::size_t alignment = wanted < kHugePageBytes ? kAlignment : kHugePageBytes;
    const std::size_t piece = align_up(wanted, alignment);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, piece));
    if (memory == nullptr) throw std::bad_alloc();
    pieces_.emplace_back(memory);
    if (alignment == kHugePageBytes) prefer_huge_pages(memory, piece);
    next_ = memory;
    left_ = piece;
  }
  std::byte* result = next_;
  next_ += rounded;
  left_ -= rounded;
  total_ += rounded;
  return result;
}

TensorReader::Location TensorReader::take(const std::string& name) {
  const Location* location = find(name);
  if (location == nullptr) {
    fail(ErrorCode::kNotFound, "{} has no tensor {}, which config.json asks for", tensors_->origin().string(),
         name);
  }
  taken_[name] = true;
  return *location;
}

void TensorReader::plan(const Location& from, std::function<void(const std::byte*)> done) {
  wanted_bytes_ += from.tensor->bytes();
  reads_.push_back({from, std::move(done)});
}

void TensorReader::want_matrix(const std::string& module, std::size_t rows, std::size_t columns,
                               Matrix& matrix) {
  matrix.rows = rows;
  matrix.columns = columns;
  if (find(module + ".weight_packed") != nullptr) return want_nibbles(module, matrix);
  const std::string name = module + ".weight";
  const Location* plain = find(name);
  if (plain != nullptr && plain->tensor->dtype == DType::kU8) return want_nibbles(module, matrix);
  if (plain != nullptr && plain->tensor->dtype == DType::kF8E4M3) return want_fp8(module, matrix);
  want_plain(name, matrix);
}

void TensorReader::want_plain(const std::string& name, Matrix& matrix) {
  const Location location = take(name);
  check_shape(*location.tensor, {matrix.rows, matrix.columns});
  switch (location.tensor->dtype) {
    case DType::kF32:
      matrix.format = WeightFormat::kF32;
      break;
    case DType::kBF16:
      matrix.format = WeightFormat::kBf16;
      break;
    case DType::kF16:  // widened, which is exact
      matrix.format = WeightFormat::kF32;
      matrix.values = reinterpret_cast<const std::byte*>(plan_floats(location).data());
      return;
    default:
      fail_type(*location.tensor, "BF16, F16 or F32");
  }
  plan(location, [&matrix](const std::byte* bytes) { matrix.values = bytes; });
}

void TensorReader::want_nibbles(const std::string& module, Matrix& matrix) {
  const auto tensor_of = [this](const std::string& name) {
    const Location* location = find(name);
    return location == nullptr ? nullptr : location->tensor;
  };
  const NibbleForm form =
      find_nibble_form(tensor_of, module, matrix.rows, matrix.columns, tensors_->origin().string());
  matrix.format = form.format;
  plan(take(form.values->name), [&matrix](const std::byte* bytes) { matrix.values = bytes; });
  plan(take(form.scales->name), [&matrix](const std::byte* bytes) { matrix.scales = bytes; });
  if (form.global == nullptr) return;
  plan(take(form.global->name), [&matrix, divides = form.global_divides](const std::byte* bytes) {
    matrix.global_scale = global_multiplier(bytes, divides);
  });
}

void TensorReader::want_fp8(const std::string& module, Matrix& matrix) {
  const Location values = take(module + ".weight");
  const Location scales = take(module + ".weight_scale");
  matrix.format = WeightFormat::kFp8Tile;
  check_shape(*values.tensor, {matrix.rows, matrix.columns});
  check_shape(*scales.tensor, {tiles(matrix.rows), 1, tiles(matrix.columns), 1});
  if (scales.tensor->dtype != DType::kF32) fail_type(*scales.tensor, "F32");
  plan(values, [&matrix](const std::byte* bytes) { matrix.values = bytes; });
  plan(scales, [&matrix](const std::byte* bytes) { matrix.scales = bytes; });
}

void TensorReader::want_vector(const std::string& name, const std::vector<Shape>& shapes, Vector& values) {
  const Location location = take(name);
  const TensorInfo& tensor = *location.tensor;
  if (std::find(shapes.begin(), shapes.end(), tensor.shape) == shapes.end())
    check_shape(tensor, shapes.front());
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16) {
    fail_type(tensor, "F32, BF16 or F16");
  }
  values = plan_floats(location);
}

const std::vector<float>& TensorReader::plan_floats(const Location& from) {
  const TensorInfo& tensor = *from.tensor;
  std::vector<float>& floats = vectors_.emplace_back(tensor.elements());
  float_bytes_ += floats.size() * sizeof(float);
  plan(from, [&floats, &tensor](const std::byte* bytes) {
    const std::vector<double> exact = plain_values(tensor.dtype, {bytes, tensor.bytes()});
    std::transform(exact.begin(), exact.end(), floats.begin(),
                   [](double x) { return static_cast<float>(x); });
  });
  return floats;
}

void TensorReader::want_padded_vector(const std::string& name, std::uint64_t least, Vector& values) {
  const Location* location = find(name);
  const bool longer =
      location != nullptr && location->tensor->shape.size() == 1 && location->tensor->shape[0] > least;
  want_vector(name, {longer ? location->tensor->shape : Shape{least}}, values);
}

void TensorReader::check_nothing_left(std::uint64_t layers, std::uint64_t experts_elsewhere) const {
  for (const auto& [name, location] : tensors_->locations()) {
    if (taken_.contains(name)) continue;
    const TensorName parsed = parse_tensor_name(name);
    const bool other_tower =
        parsed.tensor_class == TensorClass::kVision || parsed.tensor_class == TensorClass::kProjector;
    const bool activation_scale = parsed.part == Part::kInputScale || parsed.part == Part::kInputGlobalScale;
    const bool in_model = parsed.layer < static_cast<std::int64_t>(layers);
    const bool elsewhere = parsed.tensor_class == TensorClass::kExpert &&
                           parsed.expert < static_cast<std::int64_t>(experts_elsewhere);
    if (other_tower || ((activation_scale || elsewhere) && in_model)) continue;
    fail(ErrorCode::kUnsupported, "{} has a tensor {} that is not part of K3 as its config.json describes it",
         tensors_->origin().string(), name);
  }
}

std::uint64_t TensorReader::other_expert_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, location] : tensors_->locations()) {
    if (taken_.contains(name) || parse_tensor_name(name).tensor_class != TensorClass::kExpert) continue;
    bytes += location.tensor->bytes();
  }
  return bytes;
}

void TensorReader::cut_zero_padding(const std::string& name, std::size_t keep, Vector& values) {
  const auto padding = values.subspan(keep);
  if (std::any_of(padding.begin(), padding.end(), [](float x) { return x != 0; })) {
    fail(ErrorCode::kUnsupported,
         "{} has {} values for {} heads, and those behind the heads are not zero; it is per head, so nothing "
         "else "
         "may stand there",
         name, values.size(), keep);
  }
  values = values.first(keep);
}

void TensorReader::read(WeightArena& arena, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                        const Observer& observe, std::uint64_t batch_bytes) {
  std::sort(reads_.begin(), reads_.end(), [](const Read& a, const Read& b) {
    return std::pair(a.from.shard, a.from.tensor->begin) < std::pair(b.from.shard, b.from.tensor->begin);
  });
  ThreadPool pool(wanted_bytes_ < batch_bytes ? 1 : 0);
  std::uint64_t done = 0;
  for (std::span<const Read> left = reads_; !left.empty();) {
    const std::span<const Read> batch = first_batch(left, batch_bytes);
    const std::vector<std::span<std::byte>> memory = read_batch(batch, arena, pool);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (observe) observe(*batch[i].from.tensor, memory[i]);
      batch[i].done(memory[i].data());
      done += memory[i].size();
      if (progress) progress(done, wanted_bytes_);
    }
    left = left.subspan(batch.size());
  }
  reads_.clear();
}

std::span<const TensorReader::Read> TensorReader::first_batch(std::span<const Read> reads,
                                                              std::uint64_t batch_bytes) {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  do {
    bytes += reads[count++].from.tensor->bytes();
  } while (count < reads.size() && bytes < batch_bytes);
  return reads.first(count);
}

std::vector<std::span<std::byte>> TensorReader::read_batch(std::span<const Read> batch, WeightArena& arena,
                                                           ThreadPool& pool) const {
  std::deque<File> files;
  const ShardHeader* open = nullptr;
  std::vector<FileStretch> stretches;
  std::vector<std::span<std::byte>> memory;
  for (const Read& read : batch) {
    if (read.from.shard != open) {
      open = read.from.shard;
      files.push_back(File::open_read(tensors_->folder() / open->file_name));
    }
    const std::size_t bytes = read.from.tensor->bytes();
    memory.emplace_back(arena.allocate(bytes), bytes);
    stretches.push_back({&files.back(), open->header.data_offset + read.from.tensor->begin, memory.back()});
  }
  read_stretches(pool, stretches);
  return memory;
}

}  // namespace perigee
