#include "pack/record_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/hash.h"
#include "base/stream_writer.h"

namespace perigee {

void copy_expert(const RunLayout& from, std::span<const std::byte> run, const RunLayout& to,
                 std::span<std::byte> record) {
  std::memset(record.data(), 0, record.size());
  const auto copy = [&](std::uint64_t source, std::uint64_t target, std::uint64_t bytes) {
    std::memcpy(record.data() + target, run.data() + source, bytes);
  };
  for (std::size_t i = 0; i < from.matrices.size(); ++i) {
    const MatrixPlace &source = from.matrices[i], &target = to.matrices[i];
    copy(source.values, target.values, source.values_bytes());
    copy(source.scales, target.scales, source.scales_bytes());
    copy(source.global, target.global, source.global_bytes());
  }
}

std::vector<std::uint64_t> write_records(Workshop& work, const LayerPlan& plan,
                                         const std::vector<SourceExpert>& sources,
                                         const std::vector<std::filesystem::path>& partials) {
  std::vector<std::unique_ptr<StreamWriter>> writers(plan.file_bytes.size());
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (plan.file_bytes[i] > 0)
      writers[i] = std::make_unique<StreamWriter>(*work.io, partials[i], plan.file_bytes[i]);
  }
  std::vector<std::uint64_t> checksums(sources.size());
  const auto task_plan = [&](std::size_t i) {
    const FileRun& run = sources[i].run;
    return TaskPlan{{{run.file, run.offset, run.bytes}}, plan.records[i].layout.bytes};
  };
  const auto compute = [&](Task& task) {
    copy_expert(sources[task.index].layout, task.inputs[0], plan.records[task.index].layout, task.scratch);
    checksums[task.index] = xxh3_64(task.scratch);
  };
  const auto retire = [&](Task& task) {
    writers[plan.records[task.index].stripe]->append(task.scratch, task.slot);
    work.progress.add(task.inputs[0].size());
  };
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < sources.size(); ++i)
    largest = std::max(largest, Pipeline::slot_bytes(task_plan(i)));
  work.pipeline.run(sources.size(), largest, task_plan, compute, retire);
  for (const auto& writer : writers) {
    if (writer != nullptr) writer->finish();
  }
  return checksums;
}

std::vector<std::uint64_t> hash_runs(Workshop& work, const std::vector<FileRun>& runs) {
  std::vector<std::uint64_t> checksums(runs.size());
  const auto plan = [&](std::size_t i) {
    return TaskPlan{{{runs[i].file, runs[i].offset, runs[i].bytes}}, 0};
  };
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) largest = std::max(largest, Pipeline::slot_bytes(plan(i)));
  work.pipeline.run(
      runs.size(), largest, plan, [&](Task& task) { checksums[task.index] = xxh3_64(task.inputs[0]); },
      [&](Task& task) { work.progress.add(task.inputs[0].size()); });
  return checksums;
}

}  // namespace perigee
