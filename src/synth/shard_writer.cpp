#include "synth/shard_writer.h"

#include <algorithm>
#include <cstring>

#include "base/stream_writer.h"

namespace perigee::synth {
namespace {

constexpr std::uint64_t kPieceBytes = 4u << 20;

std::string header_of(const SchemaShard& shard) {
  return serialize_safetensors_header(shard.tensors, {{"format", "pt"}});
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return path.string() + ".partial";
}

// Any range of the future file.
class FileImage {
 public:
  FileImage(const SchemaShard& shard, const TensorValues& values)
      : header_(header_of(shard)), tensors_(shard.tensors), values_(values) {}

  std::uint64_t bytes() const { return header_.size() + tensors_.back().end; }

  void fill(std::uint64_t position, std::span<std::byte> out) const {
    if (position < header_.size()) {
      const std::uint64_t count = std::min<std::uint64_t>(header_.size() - position, out.size());
      std::memcpy(out.data(), header_.data() + position, count);
      position += count;
      out = out.subspan(count);
    }
    std::uint64_t at = position - header_.size();
    auto tensor =
        std::upper_bound(tensors_.begin(), tensors_.end(), at,
                         [](std::uint64_t offset, const TensorInfo& info) { return offset < info.end; });
    for (; !out.empty(); ++tensor) {
      const std::uint64_t count = std::min<std::uint64_t>(tensor->end - at, out.size());
      values_.fill(*tensor, at - tensor->begin, out.first(count));
      at += count;
      out = out.subspan(count);
    }
  }

 private:
  const std::string header_;
  const std::vector<TensorInfo>& tensors_;
  const TensorValues& values_;
};

}  // namespace

ShardWriter::ShardWriter(AsyncIo& io, Pipeline& pipeline, const TensorValues& values, Progress& progress)
    : io_(io), pipeline_(pipeline), values_(values), progress_(progress) {}

std::uint64_t ShardWriter::write(const SchemaShard& shard, const std::filesystem::path& path) {
  const FileImage image(shard, values_);
  const std::uint64_t total = image.bytes();
  const auto piece = [&](std::size_t index) {
    return std::min<std::uint64_t>(kPieceBytes, total - index * kPieceBytes);
  };
  StreamWriter writer(io_, temporary_name(path), total);
  const auto plan = [&](std::size_t index) {
    return TaskPlan{.reads = {}, .scratch_bytes = align_up(piece(index), kDirectAlignment)};
  };
  const auto compute = [&](Task& task) {
    image.fill(task.index * kPieceBytes, task.scratch.first(piece(task.index)));
  };
  const auto retire = [&](Task& task) {
    writer.append(task.scratch.first(piece(task.index)), task.slot);
    progress_.add(piece(task.index));
  };
  const std::uint64_t count = (total + kPieceBytes - 1) / kPieceBytes;
  pipeline_.run(count, Pipeline::slot_bytes(plan(0)), plan, compute, retire);
  writer.finish();
  rename_durably(writer.path(), path);
  return total;
}

std::uint64_t write_ghost(const SchemaShard& shard, const std::filesystem::path& path) {
  const std::string header = header_of(shard);
  const std::uint64_t total = header.size() + shard.tensors.back().end;
  const std::filesystem::path temporary = temporary_name(path);
  File file = File::create(temporary);
  file.write_exact(std::as_bytes(std::span(header)), 0);
  file.truncate(total);
  file.sync();
  file.close();
  rename_durably(temporary, path);
  return total;
}

std::uint64_t shard_file_bytes(const SchemaShard& shard) {
  return header_of(shard).size() + shard.tensors.back().end;
}

}  // namespace perigee::synth
