#include "pack/trunk_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/stream_writer.h"
#include "numerics/fp8_block.h"
#include "numerics/nvfp4_block.h"
#include "pack/plane_rounding.h"

namespace perigee {
namespace {

// Whole rows of a tensor that is rounded, or some bytes of one that is copied.
struct Slice {
  std::size_t tensor = 0;
  std::uint64_t begin = 0;  // of the bytes in the source tensor
  std::uint64_t bytes = 0;  // in the source
  std::uint64_t out_bytes = 0;
  bool is_last = false;  // of its tensor
};

// Of the weight alone.
std::uint64_t weight_bytes(PlaneFormat format, std::uint64_t source_bytes) {
  if (format == PlaneFormat::kBf16) return source_bytes;
  return format == PlaneFormat::kFp8 ? source_bytes / 2 : source_bytes / 4;
}

void slice_tensor(const TrunkTensor& tensor, std::size_t number, std::vector<Slice>& slices) {
  std::uint64_t step = kStretch;
  if (tensor.format != PlaneFormat::kBf16) {
    const std::uint64_t tile_rows = tensor.source.shape[1] * 2 * kFp8Tile;
    step = std::max<std::uint64_t>(kStretch / tile_rows, 1) * tile_rows;
  }
  const std::uint64_t total = tensor.source.bytes();
  for (std::uint64_t begin = 0; begin < total; begin += step) {
    Slice slice;
    slice.tensor = number;
    slice.begin = begin;
    slice.bytes = std::min(step, total - begin);
    slice.out_bytes = weight_bytes(tensor.format, slice.bytes);
    slice.is_last = begin + slice.bytes == total;
    slices.push_back(slice);
  }
}

// The scales of a rounded tensor, filled by its slices and written behind them.
struct ScalePlane {
  std::vector<std::byte> scales;
  float scale_2 = 1;  // NVFP4
};

class TrunkRun {
 public:
  TrunkRun(Workshop& work, const TrunkPlan& plan, const File& source, std::uint64_t data_offset,
           const std::filesystem::path& partial)
      : work_(work),
        plan_(plan),
        source_(source),
        data_offset_(data_offset),
        writer_(*work.io, partial, plan.file_bytes),
        planes_(plan.tensors.size()) {
    for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
      slice_tensor(plan.tensors[i], i, slices_);
      if (plan.tensors[i].format == PlaneFormat::kBf16) continue;
      planes_[i] = std::make_shared<ScalePlane>();
      planes_[i]->scales.resize(plan.tensors[i].stored[1].bytes());
    }
    errors_.resize(slices_.size());
  }

  TrunkResult run() {
    find_largest();
    emit(std::as_bytes(std::span(plan_.header)), nullptr);
    std::uint64_t position = plan_.header.size();
    for (const Slice& slice : slices_) {
      positions_.push_back(position);
      position += slice.out_bytes + (slice.is_last ? scale_bytes(plan_.tensors[slice.tensor]) : 0);
    }
    work_.pipeline.run(
        slices_.size(), largest_slot(true), [this](std::size_t i) { return task_plan(slices_[i], true); },
        [this](Task& task) { compute(task); }, [this](Task& task) { retire(task); });
    writer_.finish();
    TrunkResult result;
    result.xxh3 = hash_.value();
    result.planes = planned_planes(plan_);
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const TrunkTensor& tensor = plan_.tensors[slices_[i].tensor];
      if (tensor.plane) result.planes[*tensor.plane].error.add(errors_[i]);
    }
    return result;
  }

 private:
  static std::uint64_t scale_bytes(const TrunkTensor& tensor) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 1; i < tensor.stored.size(); ++i) bytes += tensor.stored[i].bytes();
    return bytes;
  }

  TaskPlan task_plan(const Slice& slice, bool with_output) const {
    const std::uint64_t begin = data_offset_ + plan_.tensors[slice.tensor].source.begin + slice.begin;
    return {{{&source_, begin, slice.bytes}}, with_output ? slice.out_bytes + kDirectAlignment : 0};
  }

  std::uint64_t largest_slot(bool with_output) const {
    std::uint64_t largest = kDirectAlignment;
    for (const Slice& slice : slices_)
      largest = std::max(largest, Pipeline::slot_bytes(task_plan(slice, with_output)));
    return largest;
  }

  // NVFP4 needs the largest value of a whole matrix before its first block can be written.
  void find_largest() {
    std::vector<std::size_t> wanted;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      if (plan_.tensors[slices_[i].tensor].format == PlaneFormat::kNvfp4) wanted.push_back(i);
    }
    std::vector<float> largest(plan_.tensors.size(), 0.0f);
    std::vector<float> of_slice(wanted.size());
    work_.pipeline.run(
        wanted.size(), largest_slot(false),
        [&](std::size_t i) { return task_plan(slices_[wanted[i]], false); },
        [&](Task& task) { of_slice[task.index] = bf16_largest(task.inputs[0]); },
        [&](Task& task) {
          const Slice& slice = slices_[wanted[task.index]];
          if (!std::isfinite(of_slice[task.index])) {
            fail(ErrorCode::kUnsupported, "{} has a value that is NaN or infinite; NVFP4 cannot hold it",
                 plan_.tensors[slice.tensor].source.name);
          }
          largest[slice.tensor] = std::max(largest[slice.tensor], of_slice[task.index]);
        });
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (plan_.tensors[i].format == PlaneFormat::kNvfp4) planes_[i]->scale_2 = nvfp4_scale_2(largest[i]);
    }
  }

  // The output lies in the scratch memory as it will lie in the file's blocks, so that it can be written in
  // place.
  std::span<std::byte> output(const Task& task) const {
    return task.scratch.subspan(StreamWriter::lead_in(positions_[task.index]), slices_[task.index].out_bytes);
  }

  void compute(Task& task) {
    const Slice& slice = slices_[task.index];
    const TrunkTensor& tensor = plan_.tensors[slice.tensor];
    if (tensor.format == PlaneFormat::kBf16) {
      std::memcpy(output(task).data(), task.inputs[0].data(), slice.bytes);
      return;
    }
    MatrixRows rows;
    rows.bf16 = task.inputs[0];
    rows.columns = tensor.source.shape[1];
    rows.rows = slice.bytes / 2 / rows.columns;
    const std::uint64_t first_row = slice.begin / 2 / rows.columns;
    ScalePlane& plane = *planes_[slice.tensor];
    if (tensor.format == PlaneFormat::kFp8) {
      round_fp8(tensor, rows, first_row, plane, output(task), errors_[task.index]);
    } else {
      const std::uint64_t groups = rows.columns / kNvfp4Block;
      round_to_nvfp4(rows, plane.scale_2, output(task),
                     std::span(plane.scales).subspan(first_row * groups, rows.rows * groups),
                     errors_[task.index]);
    }
  }

  static void round_fp8(const TrunkTensor& tensor, const MatrixRows& rows, std::uint64_t first_row,
                        ScalePlane& plane, std::span<std::byte> out, ErrorSums& error) {
    const std::uint64_t column_tiles = (rows.columns + kFp8Tile - 1) / kFp8Tile;
    std::vector<float> scales((rows.rows + kFp8Tile - 1) / kFp8Tile * column_tiles);
    const std::int64_t bad = round_to_fp8(rows, out, scales, error);
    if (bad >= 0) {
      const auto index = static_cast<std::uint64_t>(bad);
      fail(ErrorCode::kUnsupported, "{} row {} column {} is NaN or infinite; FP8 cannot hold it",
           tensor.source.name, first_row + index / rows.columns, index % rows.columns);
    }
    std::memcpy(plane.scales.data() + first_row / kFp8Tile * column_tiles * sizeof(float), scales.data(),
                scales.size() * sizeof(float));
  }

  void retire(Task& task) {
    const Slice& slice = slices_[task.index];
    emit(output(task), task.slot);
    work_.progress.add(slice.bytes);
    const TrunkTensor& tensor = plan_.tensors[slice.tensor];
    if (!slice.is_last || tensor.format == PlaneFormat::kBf16) return;
    const std::shared_ptr<ScalePlane> plane = planes_[slice.tensor];
    emit(plane->scales, plane);
    if (tensor.format == PlaneFormat::kNvfp4) emit(std::as_bytes(std::span(&plane->scale_2, 1)), nullptr);
  }

  void emit(std::span<const std::byte> bytes, const std::shared_ptr<void>& keep_alive) {
    hash_.update(bytes);
    writer_.append(bytes, keep_alive);
  }

  Workshop& work_;
  const TrunkPlan& plan_;
  const File& source_;
  const std::uint64_t data_offset_;
  StreamWriter writer_;
  std::vector<Slice> slices_;
  std::vector<std::uint64_t> positions_;             // in the output file; by slice
  std::vector<std::shared_ptr<ScalePlane>> planes_;  // by tensor; null for those that are copied
  std::vector<ErrorSums> errors_;                    // by slice, so that workers need no lock
  Xxh3 hash_;
};

}  // namespace

void PlaneSums::add(const PlaneSums& other) {
  tensors += other.tensors;
  rounded += other.rounded;
  source_bytes += other.source_bytes;
  stored_bytes += other.stored_bytes;
  error.add(other.error);
}

PlaneTable planned_planes(const TrunkPlan& plan) {
  PlaneTable table;
  for (const TrunkTensor& tensor : plan.tensors) {
    if (!tensor.plane) continue;
    PlaneSums& sums = table[*tensor.plane];
    sums.tensors += 1;
    sums.rounded += tensor.format != PlaneFormat::kBf16 ? 1 : 0;
    sums.source_bytes += tensor.source.bytes();
    for (const TensorInfo& stored : tensor.stored) sums.stored_bytes += stored.bytes();
  }
  return table;
}

TrunkResult write_trunk(Workshop& work, const TrunkPlan& plan, const File& source, std::uint64_t data_offset,
                        const std::filesystem::path& partial) {
  return TrunkRun(work, plan, source, data_offset, partial).run();
}

}  // namespace perigee
