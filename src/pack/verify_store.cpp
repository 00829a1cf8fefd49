#include "pack/verify_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/checkpoint.h"
#include "convert/source_shards.h"
#include "experts/checkpoint_experts.h"
#include "experts/store_format.h"
#include "pack/record_writer.h"
#include "pack/trunk_plan.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptFailures = 20;

std::uint64_t planned_bytes(const StoreIndex& index, const StoreReport& report, bool with_source) {
  std::uint64_t experts = 0, parts = 0;
  for (const ExpertRecord& record : index.table.records) experts += index.table.layouts[record.layout].bytes;
  for (const StoreReport::Part& part : report.parts) parts += part.bytes;
  return with_source ? 2 * experts + 3 * parts : experts + parts;
}

class StoreVerifier {
 public:
  StoreVerifier(const fs::path& store, OpenedStore opened, StoreReport report, const WorkOptions& options,
                bool with_source)
      : store_(store),
        opened_(std::move(opened)),
        cancel_(options.cancel),
        work_(options, "verifying", planned_bytes(opened_.index, report, with_source)) {
    result_.report = std::move(report);
    for (const fs::path& path : opened_.files) files_.push_back(File::open_read(path, Caching::kDirect));
  }

  void check_parts() {
    for (const StoreReport::Part& part : result_.report.parts) {
      check_cancelled();
      const fs::path path = store_ / part.path;
      ++result_.parts;
      result_.bytes_read += part.bytes;
      try {
        if (File::open_read(path).size() == part.bytes && hash_from_disk(work_, path) == part.xxh3) continue;
        add_failure(fmt::format("{} is not what was written; pack again", path.string()));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kInterrupted) throw;
        add_failure(error.what());
      }
    }
  }

  // Every record has its checksum and, if `source` is given, holds that checkpoint's expert.
  void check_records(const CheckpointExperts* source) {
    const ExpertTable& table = opened_.index.table;
    if (source != nullptr && (source->table.records.size() != table.records.size() ||
                              source->table.has_experts != table.has_experts)) {
      add_failure("the checkpoint has other experts than the store");
      source = nullptr;
    }
    std::vector<File> shards;
    if (source != nullptr) {
      for (const fs::path& path : source->files) shards.push_back(File::open_read(path, Caching::kDirect));
    }
    std::vector<RecordState> states(table.records.size());
    const auto plan = [&](std::size_t i) {
      if (source == nullptr) return TaskPlan{{extent_of(i)}, 0};
      const ExpertRecord& from = source->table.records[i];
      const std::uint64_t bytes = source->table.layouts[from.layout].bytes;
      return TaskPlan{{extent_of(i), {&shards[from.file], from.offset, bytes}}, 0};
    };
    const auto compute = [&](Task& task) {
      RecordState& state = states[task.index];
      state.has_checksum = xxh3_64(task.inputs[0]) == table.records[task.index].checksum;
      if (source == nullptr) return;
      const RunLayout& from = source->table.layouts[source->table.records[task.index].layout];
      state.is_same =
          same_matrices(layout_of(task.index), task.inputs[0].data(), from, task.inputs[1].data());
    };
    const auto retire = [&](Task& task) { retire_record(task, states[task.index]); };
    work_.pipeline.run(table.records.size(), largest_slot(plan, table.records.size()), plan, compute, retire);
  }

  void compare_trunk(const fs::path& source, const CheckpointIndex& index, const K3Config& config) {
    const CheckpointIndex stored = load_checkpoint_index(store_);
    SourceShards trunk(store_, stored);
    for (const std::string& name : index.shards) {
      check_cancelled();
      const ShardHeader shard = read_shard_header(source, index, name);
      const File file = File::open_read(source / name, Caching::kDirect);
      const TrunkPlan plan = plan_trunk(shard.header, config, PlaneFormats{});
      for (const TrunkTensor& tensor : plan.tensors) {
        const auto holder = trunk.open_for(tensor.source.name);
        if (holder == nullptr) {
          add_failure(fmt::format("the store lacks {}", tensor.source.name));
          continue;
        }
        const TensorInfo& found = *holder->meta.header.find(tensor.source.name);
        compare_tensor({&file, shard.header.data_offset + tensor.source.begin, tensor.source.bytes()}, tensor,
                       {&holder->file, holder->meta.header.data_offset + found.begin, found.bytes()}, found);
      }
    }
  }

  StoreVerification finish() {
    work_.progress.finish();
    return std::move(result_);
  }

 private:
  void check_cancelled() const {
    if (cancel_ != nullptr) cancel_->check();
  }

  void add_failure(const std::string& what) {
    ++result_.failures;
    if (result_.kept.size() < kKeptFailures) result_.kept.push_back({what});
  }

  const RunLayout& layout_of(std::size_t record) const {
    return opened_.index.table.layouts[opened_.index.table.records[record].layout];
  }

  Extent extent_of(std::size_t number) const {
    const ExpertRecord& record = opened_.index.table.records[number];
    return {&files_[record.file], record.offset, layout_of(number).bytes};
  }

  template <typename Plan>
  static std::uint64_t largest_slot(const Plan& plan, std::size_t count) {
    std::uint64_t largest = kDirectAlignment;
    for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, Pipeline::slot_bytes(plan(i)));
    return largest;
  }

  // "layer 3 expert 17 (experts-00003.bin at byte 69632)"
  std::string place_of(std::size_t number) const {
    const ExpertTable& table = opened_.index.table;
    const ExpertRecord& record = table.records[number];
    std::uint64_t layer = 0, before = 0;
    while (!table.has_experts[layer] || number - before >= table.experts) {
      if (table.has_experts[layer]) before += table.experts;
      ++layer;
    }
    return fmt::format("layer {} expert {} ({} at byte {})", layer, number - before,
                       opened_.files[record.file].string(), record.offset);
  }

  struct RecordState {
    bool has_checksum = false;
    bool is_same = true;
  };

  void retire_record(const Task& task, const RecordState& state) {
    ++result_.records;
    if (task.inputs.size() > 1) ++result_.compared;
    for (const auto& input : task.inputs) {
      result_.bytes_read += input.size();
      work_.progress.add(input.size());
    }
    if (!state.has_checksum) {
      add_failure(fmt::format("{} does not have its checksum; pack again", place_of(task.index)));
    }
    if (!state.is_same) add_failure(fmt::format("{} is not the checkpoint's", place_of(task.index)));
  }

  static bool same_matrices(const RunLayout& a, const std::byte* run_a, const RunLayout& b,
                            const std::byte* run_b) {
    for (std::size_t i = 0; i < a.matrices.size(); ++i) {
      const MatrixPlace &x = a.matrices[i], &y = b.matrices[i];
      if (x.format != y.format || x.rows != y.rows || x.columns != y.columns || x.global_use != y.global_use)
        return false;
      if (std::memcmp(run_a + x.values, run_b + y.values, x.values_bytes()) != 0 ||
          std::memcmp(run_a + x.scales, run_b + y.scales, x.scales_bytes()) != 0 ||
          std::memcmp(run_a + x.global, run_b + y.global, x.global_bytes()) != 0) {
        return false;
      }
    }
    return true;
  }

  void compare_tensor(const FileRun& source, const TrunkTensor& tensor, const FileRun& stored,
                      const TensorInfo& found) {
    if (found.dtype == tensor.source.dtype && found.shape == tensor.source.shape) {
      ++result_.same;
      if (!same_bytes(source, stored)) {
        add_failure(fmt::format("{} is not the checkpoint's", tensor.source.name));
      }
      return;
    }
    const bool is_rounded =
        std::ranges::any_of(std::array{PlaneFormat::kFp8, PlaneFormat::kNvfp4}, [&](PlaneFormat format) {
          const TensorInfo expected = stored_tensors(tensor.source, format).front();
          return tensor.plane && expected.dtype == found.dtype && expected.shape == found.shape;
        });
    if (is_rounded) {
      ++result_.rounded;
    } else {
      add_failure(fmt::format("{} is {} {} in the store, but {} {} in the checkpoint", found.name,
                              dtype_name(found.dtype), shape_text(found.shape),
                              dtype_name(tensor.source.dtype), shape_text(tensor.source.shape)));
    }
  }

  bool same_bytes(const FileRun& a, const FileRun& b) {
    bool same = true;
    const auto plan = [&](std::size_t i) {
      const std::uint64_t begin = i * kStretch, length = std::min(kStretch, a.bytes - begin);
      return TaskPlan{{{a.file, a.offset + begin, length}, {b.file, b.offset + begin, length}}, 0};
    };
    const std::size_t count = (a.bytes + kStretch - 1) / kStretch;
    work_.pipeline.run(
        count, largest_slot(plan, count), plan, [](Task&) {},
        [&](Task& task) {
          same = same && std::ranges::equal(task.inputs[0], task.inputs[1]);
          result_.bytes_read += 2 * task.inputs[0].size();
          work_.progress.add(2 * task.inputs[0].size());
        });
    return same;
  }

  const fs::path store_;
  const OpenedStore opened_;
  const CancelToken* const cancel_;
  Workshop work_;
  std::vector<File> files_;
  StoreVerification result_;
};

}  // namespace

StoreVerification verify_store(const fs::path& store, const std::optional<fs::path>& source,
                               const WorkOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  StoreVerifier verifier(store, open_store(store), load_store_report(store), options, source.has_value());
  verifier.check_parts();
  if (source) {
    const CheckpointIndex index = load_checkpoint_index(*source);
    const K3Config config = load_config(*source / "config.json");
    const CheckpointExperts experts = find_checkpoint_experts(
        *source, config, index,
        [&](const std::string& name) { return read_shard_header(*source, index, name); });
    verifier.check_records(&experts);
    verifier.compare_trunk(*source, index, config);
  } else {
    verifier.check_records(nullptr);
  }
  StoreVerification result = verifier.finish();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace perigee
