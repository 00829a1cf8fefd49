#include "convert/shard_converter.h"

#include "base/stream_writer.h"

namespace perigee {
namespace {

class ShardRun {
 public:
  ShardRun(AsyncIo& io, const ShardPlan& plan, const ComputeOptions& options,
           const std::filesystem::path& partial, bool with_sha256, Progress& progress)
      : plan_(plan),
        options_(options),
        progress_(progress),
        hasher_(with_sha256),
        writer_(io, partial, plan.file_bytes),
        records_(plan.units.size()) {
    emit(std::as_bytes(std::span(plan.header)), nullptr);
  }

  TaskPlan plan(std::size_t index) const {
    const Unit& unit = plan_.units[index];
    return {unit.reads, unit.out_length + kDirectAlignment};
  }

  void compute(Task& task) {
    records_[task.index] = compute_unit(plan_.units[task.index], task.inputs, output(task), options_);
  }

  void retire(Task& task) {
    const Unit& unit = plan_.units[task.index];
    if (const auto* scales = std::get_if<Fp8Scales>(&unit.work)) write_fp8_scales(*scales, output(task));
    emit(output(task), task.slot);
    std::uint64_t read = 0;
    for (const Extent& extent : unit.reads) read += extent.length;
    progress_.add(read);
  }

  ShardResult finish() {
    writer_.finish();
    ShardResult result;
    result.digest = hasher_.finish();
    for (std::vector<ModuleRecord>& records : records_) {
      for (ModuleRecord& record : records) result.modules.push_back(std::move(record));
    }
    return result;
  }

 private:
  // The output lies in the scratch memory as it will lie in the file's blocks, so that it can be written in
  // place.
  std::span<std::byte> output(const Task& task) const {
    const Unit& unit = plan_.units[task.index];
    return task.scratch.subspan(StreamWriter::lead_in(plan_.header.size() + unit.out_begin), unit.out_length);
  }

  void emit(std::span<const std::byte> bytes, const std::shared_ptr<void>& keep_alive) {
    hasher_.update(bytes, keep_alive);
    writer_.append(bytes, keep_alive);
  }

  const ShardPlan& plan_;
  const ComputeOptions& options_;
  Progress& progress_;
  OrderedHasher hasher_;
  StreamWriter writer_;
  std::vector<std::vector<ModuleRecord>> records_;  // per unit, so that workers need no lock
};

}  // namespace

ShardResult convert_shard(AsyncIo& io, Pipeline& pipeline, const ShardPlan& plan,
                          const ComputeOptions& options, const std::filesystem::path& partial,
                          bool with_sha256, Progress& progress) {
  ShardRun run(io, plan, options, partial, with_sha256, progress);
  pipeline.run(
      plan.units.size(), plan.largest_slot, [&](std::size_t i) { return run.plan(i); },
      [&](Task& task) { run.compute(task); }, [&](Task& task) { run.retire(task); });
  return run.finish();
}

}  // namespace perigee
