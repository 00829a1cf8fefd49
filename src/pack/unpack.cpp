#include "pack/unpack.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stream_writer.h"
#include "checkpoint/index.h"
#include "checkpoint/tensor_name.h"
#include "convert/sidecars.h"
#include "convert/source_shards.h"
#include "experts/store_format.h"
#include "pack/finish_store.h"
#include "pack/pack_journal.h"
#include "pack/pack_plan.h"
#include "pack/shard_head.h"
#include "pack/store_report.h"
#include "pack/trunk_plan.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxIndexBytes = 1ull << 30;
constexpr std::uint64_t kMaxConfigBytes = 16ull << 20;

void check_can_unpack(const fs::path& store, const StoreReport& report) {
  if (report.linked) {
    fail(ErrorCode::kUnsupported, "{} is linked: its experts are still in the checkpoint itself",
         store.string());
  }
  for (const auto& [plane, sums] : report.planes) {
    if (sums.rounded == 0) continue;
    fail(ErrorCode::kLossy,
         "{} has {} matrices of the plane \"{}\" rounded, so the checkpoint cannot come back "
         "from it",
         store.string(), sums.rounded, plane_name(plane));
  }
}

// Some bytes of a shard's data buffer, gathered from one or two files.
struct Gather {
  struct Copy {
    std::size_t input = 0;
    std::uint64_t from = 0, to = 0, bytes = 0;
  };
  std::vector<Extent> reads;
  std::vector<Copy> copies;
  std::uint64_t bytes = 0;
};

class ShardGatherer {
 public:
  ShardGatherer(const fs::path& store, const StoreReport::Shard& shard, const OpenedStore& opened,
                const std::vector<File>& records, const std::vector<std::uint64_t>& first)
      : opened_(opened),
        records_(records),
        first_(first),
        config_(load_config(store / "config.json")),
        head_(File::open_read(head_path(store, shard.name), Caching::kDirect)),
        header_(parse_head(head_path(store, shard.name), shard.bytes)),
        leftover_(header_.data_offset) {
    if (!shard.trunk.empty()) trunk_ = SafetensorsFile::open(store / shard.trunk, Caching::kDirect);
  }

  const SafetensorsHeader& header() const { return header_; }

  std::vector<Gather> gather() {
    std::vector<Gather> gathers;
    std::int64_t record = -1;  // whose Gather is the last one
    for (const TensorInfo& tensor : header_.tensors) {
      const std::int64_t its_record = record_of(tensor);
      if (its_record < 0) {
        copy_from_trunk(tensor, gathers);
      } else {
        if (its_record != record) gathers.push_back(start_record(its_record));
        add_expert_tensor(tensor, its_record, gathers.back());
      }
      record = its_record;
    }
    return gathers;
  }

 private:
  // Of an expert's tensors and leftovers; -1 for the trunk's.
  std::int64_t record_of(const TensorInfo& tensor) const {
    const TensorName name = parse_tensor_name(tensor.name);
    const auto layer = static_cast<std::uint64_t>(name.layer),
               expert = static_cast<std::uint64_t>(name.expert);
    if (name.tensor_class != TensorClass::kExpert || layer >= config_.num_hidden_layers ||
        !config_.is_moe(layer))
      return -1;
    if (expert >= config_.num_experts) {
      fail(ErrorCode::kCorrupt, "{} has {}, which the store has no record of", head_.path().string(),
           tensor.name);
    }
    return static_cast<std::int64_t>(first_[layer] + expert);
  }

  void copy_from_trunk(const TensorInfo& tensor, std::vector<Gather>& gathers) const {
    const TensorInfo* stored = trunk_.header.find(tensor.name);
    if (stored == nullptr || stored->dtype != tensor.dtype || stored->shape != tensor.shape) {
      fail(ErrorCode::kCorrupt, "{} has no {} as the source had it", trunk_.file.path().string(),
           tensor.name);
    }
    for (std::uint64_t begin = 0; begin < tensor.bytes(); begin += kStretch) {
      const std::uint64_t bytes = std::min(kStretch, tensor.bytes() - begin);
      Gather piece;
      piece.reads.push_back({&trunk_.file, trunk_.position(*stored) + begin, bytes});
      piece.copies.push_back({0, 0, 0, bytes});
      piece.bytes = bytes;
      gathers.push_back(std::move(piece));
    }
  }

  Gather start_record(std::int64_t number) const {
    const ExpertRecord& record = opened_.index.table.records[static_cast<std::size_t>(number)];
    Gather gather;
    gather.reads.push_back(
        {&records_[record.file], record.offset, opened_.index.table.layouts[record.layout].bytes});
    return gather;
  }

  void add_expert_tensor(const TensorInfo& tensor, std::int64_t number, Gather& gather) {
    const ExpertRecord& record = opened_.index.table.records[static_cast<std::size_t>(number)];
    const RunLayout& layout = opened_.index.table.layouts[record.layout];
    Gather::Copy copy;
    copy.to = gather.bytes;
    copy.bytes = tensor.bytes();
    if (is_in_record(tensor, config_)) {
      copy.from = place_in_record(tensor, layout);
    } else {
      copy.input = gather.reads.size();
      gather.reads.push_back({&head_, leftover_, copy.bytes});
      leftover_ += copy.bytes;
    }
    gather.copies.push_back(copy);
    gather.bytes += copy.bytes;
  }

  std::uint64_t place_in_record(const TensorInfo& tensor, const RunLayout& layout) const {
    const TensorName name = parse_tensor_name(tensor.name);
    const MatrixPlace& matrix = layout.matrices[static_cast<std::size_t>(name.projection) - 1];
    std::uint64_t place = matrix.values, bytes = matrix.values_bytes();
    if (name.part == Part::kWeightScale) place = matrix.scales, bytes = matrix.scales_bytes();
    if (name.part == Part::kWeightScale2 || name.part == Part::kWeightGlobalScale)
      place = matrix.global, bytes = matrix.global_bytes();
    if (bytes != tensor.bytes()) {
      fail(ErrorCode::kCorrupt, "{} has {} bytes in {}, but {} in the store", tensor.name, tensor.bytes(),
           head_.path().string(), bytes);
    }
    return place;
  }

  const OpenedStore& opened_;
  const std::vector<File>& records_;
  const std::vector<std::uint64_t>& first_;  // record of each layer's first expert
  const K3Config config_;
  const File head_;
  const SafetensorsHeader header_;
  std::uint64_t leftover_;  // where the next leftover is in the head file
  SafetensorsFile trunk_;
};

void write_shard(Workshop& work, ShardGatherer& gatherer, const std::string& head, const fs::path& path) {
  const std::vector<Gather> gathers = gatherer.gather();
  const fs::path partial = partial_path(path);
  StreamWriter writer(*work.io, partial, head.size() + gatherer.header().data_bytes);
  Xxh3 hash;
  const auto emit = [&](std::span<const std::byte> bytes, const std::shared_ptr<void>& keep_alive) {
    hash.update(bytes);
    writer.append(bytes, keep_alive);
  };
  const auto plan = [&](std::size_t i) { return TaskPlan{gathers[i].reads, gathers[i].bytes}; };
  std::uint64_t largest = kDirectAlignment;
  for (std::size_t i = 0; i < gathers.size(); ++i) largest = std::max(largest, Pipeline::slot_bytes(plan(i)));
  const auto compute = [&](Task& task) {
    for (const Gather::Copy& copy : gathers[task.index].copies) {
      std::memcpy(task.scratch.data() + copy.to, task.inputs[copy.input].data() + copy.from, copy.bytes);
    }
  };
  const auto retire = [&](Task& task) {
    const auto bytes = task.scratch.first(gathers[task.index].bytes);
    emit(bytes, task.slot);
    work.progress.add(bytes.size());
  };
  emit(std::as_bytes(std::span(head)), nullptr);
  work.pipeline.run(gathers.size(), largest, plan, compute, retire);
  writer.finish();
  if (hash_from_disk(work, partial) != hash.value()) {
    fs::remove(partial);
    fail(ErrorCode::kMismatch,
         "{} was written but is not what it must be when read back; check disk and memory", path.string());
  }
}

std::string item_name(std::size_t shard) {
  return fmt::format("shard-{:05}", shard + 1);
}

// The shards that an interrupted run finished and that are still as it left them.
std::vector<bool> find_finished(const StoreReport& report, const fs::path& output) {
  std::vector<bool> finished(report.shards.size(), false);
  for (std::size_t i = 0; i < finished.size(); ++i) {
    const std::optional<ItemRecord> record = PackJournal::load(output, item_name(i));
    if (!record) continue;
    finished[i] = PackJournal::finish_renames(*record) && PackJournal::files_are_intact(*record);
    if (!finished[i])
      log_warning("{} is not what was written; unpacking it again",
                  (output / report.shards[i].name).string());
  }
  return finished;
}

std::string head_text(const fs::path& path, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  File::open_read(path).read_exact(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

bool is_in_place(const fs::path& store, const StoreReport::Shard& shard, const fs::path& path) {
  std::error_code missing;
  if (fs::file_size(path, missing) != shard.bytes || missing) return false;
  const fs::path head = head_path(store, shard.name);
  const std::uint64_t bytes = parse_head(head, shard.bytes).data_offset;
  return head_text(path, bytes) == head_text(head, bytes);
}

// Whether everything is in place, and no journal or one that has lost its job: an earlier run came to its
// end, or died while it tidied up.
bool is_complete(const fs::path& store, const StoreReport& report, const fs::path& output) {
  std::error_code ignored;  // of a journal that is not there
  for (const fs::directory_entry& entry : fs::directory_iterator(output / ".perigee", ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("shard-") && name != "unpack.lock") return false;
  }
  const bool needs_index = fs::exists(store / kSourceFolder / kKeptIndexName);
  return (!needs_index || fs::exists(output / kIndexFileName)) &&
         std::ranges::all_of(report.shards, [&](const StoreReport::Shard& shard) {
           return is_in_place(store, shard, output / shard.name);
         });
}

// The index comes last, so that nothing looks like a checkpoint before it is one.
void give_back_side_files(const fs::path& store, const fs::path& output) {
  SidecarList list = list_sidecars(store);
  std::erase_if(list.files, [](const SidecarFile& file) {
    return file.source_name == kStoreReportName || file.source_name == kStoreIndexName;
  });
  for (SidecarFile& file : list.files) file.output_name = file.source_name;
  copy_sidecars(store, output, list);
  for (const char* name : {"config.json", "hf_quant_config.json"}) {
    if (fs::exists(store / name))
      write_file_atomically(output / name, read_small_file(store / name, kMaxConfigBytes));
  }
  const fs::path kept = store / kSourceFolder / kKeptIndexName;
  if (fs::exists(kept)) write_file_atomically(output / kIndexFileName, read_small_file(kept, kMaxIndexBytes));
}

void give_back_shards(const fs::path& store, const OpenedStore& opened, const StoreReport& report,
                      const fs::path& output, const PackJournal& journal, const WorkOptions& options,
                      UnpackOutcome& outcome) {
  const std::vector<std::uint64_t> first = opened.index.table.first_records();
  std::vector<File> records;
  for (const fs::path& path : opened.files) records.push_back(File::open_read(path, Caching::kDirect));
  const std::vector<bool> finished = find_finished(report, output);
  Workshop work(options, "unpacking", 2 * outcome.bytes);
  for (std::size_t i = 0; i < report.shards.size(); ++i) {
    const StoreReport::Shard& shard = report.shards[i];
    if (options.cancel != nullptr) options.cancel->check();
    work.progress.set_detail(fmt::format("shard {}/{}", i + 1, report.shards.size()));
    if (finished[i]) {
      ++outcome.resumed;
      work.progress.add(2 * shard.bytes);
      continue;
    }
    journal.forget(item_name(i));
    ShardGatherer gatherer(store, shard, opened, records, first);
    write_shard(work, gatherer, head_text(head_path(store, shard.name), gatherer.header().data_offset),
                output / shard.name);
    ItemRecord record;
    record.files.push_back(mark_of_partial(output / shard.name));
    journal.commit(item_name(i), record);
  }
  work.progress.finish();
}

}  // namespace

UnpackOutcome unpack_store(const fs::path& store, const fs::path& given_output, const WorkOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const OpenedStore opened = open_store(store);
  const StoreReport report = load_store_report(store);
  check_can_unpack(store, report);
  const fs::path output = canonical_path(given_output);
  UnpackOutcome outcome;
  outcome.shards = report.shards.size();
  for (const StoreReport::Shard& shard : report.shards) outcome.bytes += shard.bytes;
  if (is_complete(store, report, output)) {
    PackJournal::discard(output);
    outcome.already_complete = true;
    return outcome;
  }
  PackJournal journal(output, report.fingerprint, PackJournal::Job::kUnpack);
  if (!journal.resuming()) journal.start({});
  give_back_shards(store, opened, report, output, journal, options, outcome);
  give_back_side_files(store, output);
  journal.remove();
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace perigee
