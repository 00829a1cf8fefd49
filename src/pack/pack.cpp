#include "pack/pack.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/disk_rate.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "convert/source_shards.h"
#include "experts/store_format.h"
#include "pack/finish_store.h"
#include "pack/pack_plan.h"
#include "pack/record_writer.h"
#include "pack/shard_head.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSpareBytes = 64ull << 20;  // for side files, indexes and the journal
constexpr double kRateSeconds = 1;

[[noreturn]] void fail_read_back(const std::string& what) {
  fail(
      ErrorCode::kMismatch,
      "{} was written but is not what it must be when read back; check disk and memory, then run the command "
      "again",
      what);
}

// Headers of shards, also of those that an earlier run deleted after keeping their headers in the store.
class SourceHeads {
 public:
  explicit SourceHeads(const PackOptions& options)
      : options_(options), index_(load_checkpoint_index(options.source)) {
    if (!is_store(options.store)) return;
    for (StoreReport::Shard& shard : load_store_report(options.store).shards)
      packed_[shard.name] = {shard.name, shard.bytes, 0};
  }

  ShardHeader read(const std::string& name) const {
    std::error_code error;
    const SourceMark known = fs::exists(options_.source / name, error) ? SourceMark() : mark_of_packed(name);
    if (known.shard.empty()) return read_shard_header(options_.source, index_, name);
    ShardHeader shard;
    shard.file_name = name;
    shard.file_bytes = known.bytes;
    shard.modified_ns = known.modified_ns;
    shard.header = parse_head(head_path(options_.store, name), known.bytes);
    return shard;
  }

 private:
  SourceMark mark_of_packed(const std::string& name) const {
    const auto found = packed_.find(name);
    if (found != packed_.end()) return found->second;
    const auto number =
        static_cast<std::uint64_t>(std::ranges::find(index_.shards, name) - index_.shards.begin());
    const auto record = PackJournal::load(options_.store, trunk_item_name(number));
    return record && !record->sources.empty() ? record->sources.front() : SourceMark();
  }

  const PackOptions& options_;
  const CheckpointIndex index_;
  std::map<std::string, SourceMark> packed_;  // of a complete store
};

class PackJob {
 public:
  PackJob(const PackOptions& options, PackPlan plan, PackJournal& journal)
      : options_(options), plan_(std::move(plan)), journal_(journal), sources_(options.source, plan_.index) {}

  PackOutcome run() {
    const auto start = std::chrono::steady_clock::now();
    outcome_.items = plan_.items.size();
    records_.resize(plan_.items.size());
    settle_weights();
    keep_source_index(options_);
    find_finished();
    check_free_space();
    pack_items();
    outcome_.report = finish_store(options_, plan_, records_, journal_.weights());
    journal_.remove();
    outcome_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(outcome_);
  }

 private:
  void check_cancelled() const {
    if (options_.work.cancel != nullptr) options_.work.cancel->check();
  }

  void settle_weights() {
    if (journal_.resuming()) return;
    std::vector<double> weights;
    for (const Stripe& stripe : record_folders(options_)) {
      fs::create_directories(stripe.folder);
      refuse_foreign_records(stripe.folder);
      weights.push_back(stripe.weight > 0 ? stripe.weight : read_rate(stripe.folder));
    }
    journal_.start(weights);
  }

  // Checked once, before anything of this job can be there.
  void refuse_foreign_records(const fs::path& folder) const {
    for (const PackItem& item : plan_.items) {
      const fs::path path = folder / record_file_name(item.number);
      if (item.is_trunk || !fs::exists(path)) continue;
      fail(ErrorCode::kExists, "{} is there already, of another store; choose another folder", path.string());
    }
  }

  double read_rate(const fs::path& folder) const {
    static const CancelToken kNever;
    const CancelToken& cancel = options_.work.cancel != nullptr ? *options_.work.cancel : kNever;
    const double rate = measure_disk(folder, kRateSeconds, cancel).read_bytes_per_second;
    log_info("{} reads {}/s", folder.string(), format_bytes(static_cast<std::uint64_t>(rate)));
    return std::max(rate, 1.0);
  }

  // The final paths of an item's files. Those of a layer go by folder; a folder without a record has none.
  std::vector<fs::path> final_paths(const PackItem& item) const {
    std::vector<fs::path> paths;
    if (!item.is_trunk) {
      for (const Stripe& stripe : record_folders(options_))
        paths.push_back(stripe.folder / record_file_name(item.number));
      return paths;
    }
    if (item.store_bytes > 0) paths.push_back(options_.store / trunk_file_name(item.number));
    if (!options_.link) paths.push_back(head_path(options_.store, plan_.index.shards[item.number]));
    return paths;
  }

  void find_finished() {
    std::uint64_t to_check = 0;
    for (const PackItem& item : plan_.items) to_check += item.store_bytes;
    std::optional<Workshop> work;
    if (options_.resume_check == ResumeCheck::kFull && journal_.resuming())
      work.emplace(options_.work, "checking", to_check);
    for (std::size_t i = 0; i < plan_.items.size(); ++i) {
      check_cancelled();
      records_[i] = {};
      std::optional<ItemRecord> record = PackJournal::load(options_.store, plan_.items[i].name);
      if (!record || !is_still_good(plan_.items[i], *record, work ? &*work : nullptr)) {
        pending_.push_back(i);
        continue;
      }
      records_[i] = *std::move(record);
      ++outcome_.items_resumed;
    }
    for (std::uint32_t shard = 0; shard < plan_.index.shards.size(); ++shard) delete_if_done(shard);
  }

  bool is_still_good(const PackItem& item, const ItemRecord& record, Workshop* work) {
    for (const SourceMark& mark : record.sources) {
      if (!fs::exists(options_.source / mark.shard)) continue;  // deleted once it was packed
      const File file = File::open_read(options_.source / mark.shard);
      if (file.size() == mark.bytes && file.modified_ns() == mark.modified_ns) continue;
      log_warning("{} changed since it was packed; packing {} again", mark.shard, item.name);
      return false;
    }
    if (!PackJournal::finish_renames(record)) return false;
    if (PackJournal::files_are_intact(record) && (work == nullptr || checksums_hold(item, record, *work)))
      return true;
    log_warning("{} is not what was written; packing it again", item.name);
    return false;
  }

  bool checksums_hold(const PackItem& item, const ItemRecord& record, Workshop& work) const {
    if (!item.is_trunk) return options_.link || hash_layer(work, item, false) == record.checksums;
    for (std::size_t i = 0; i < record.files.size(); ++i) {
      if (hash_from_disk(work, record.files[i].path) != record.checksums.at(i)) return false;
    }
    return true;
  }

  void check_free_space() const {
    if (options_.delete_source) return;  // found file by file when space is reserved
    std::map<dev_t, std::pair<fs::path, std::uint64_t>> needed;
    const auto add = [&](const fs::path& folder, std::uint64_t bytes) {
      struct stat status {};
      if (::stat(existing_folder(folder).c_str(), &status) != 0) return;
      auto& [path, sum] = needed.try_emplace(status.st_dev, folder, 0).first->second;
      sum += bytes;
    };
    add(options_.store, kSpareBytes);
    for (const std::size_t i : pending_) {
      const PackItem& item = plan_.items[i];
      if (item.is_trunk) {
        add(options_.store, item.store_bytes);
        continue;
      }
      if (options_.link) continue;
      const LayerPlan layer = plan_records(source_layouts(plan_, item.number), journal_.weights());
      const std::vector<Stripe> folders = record_folders(options_);
      for (std::size_t s = 0; s < folders.size(); ++s) add(folders[s].folder, layer.file_bytes[s]);
    }
    for (const auto& [device, need] : needed) {
      const std::uint64_t available = free_bytes(need.first);
      if (available >= need.second) continue;
      fail(ErrorCode::kNoSpace,
           "{} has {} free, but {} are still to be written there; free some space, or "
           "spread the records with --stripe",
           need.first.string(), format_bytes(available), format_bytes(need.second));
    }
  }

  void pack_items() {
    if (pending_.empty()) return;
    std::uint64_t traffic = 0;
    for (const std::size_t i : pending_) traffic += plan_.items[i].source_bytes + plan_.items[i].store_bytes;
    Workshop work(options_.work, "packing", traffic);
    while (!pending_.empty()) {
      check_cancelled();
      const std::size_t i = pending_.front();
      const PackItem& item = plan_.items[i];
      work.progress.set_detail(fmt::format("{}, {} of {}", item.name,
                                           plan_.items.size() - pending_.size() + 1, plan_.items.size()));
      journal_.forget(item.name);
      ItemRecord record = item.is_trunk ? pack_trunk(work, item) : pack_layer(work, item);
      for (const FileMark& file : record.files) outcome_.store_bytes_written += file.bytes;
      outcome_.source_bytes_read += item.source_bytes;
      journal_.commit(item.name, record);
      records_[i] = std::move(record);
      pending_.erase(pending_.begin());
      for (const std::uint32_t shard : item.shards) delete_if_done(shard);
    }
    work.progress.finish();
  }

  static SourceMark mark_of(const OpenShard& shard) {
    return {shard.meta.file_name, shard.meta.file_bytes, shard.meta.modified_ns};
  }

  ItemRecord pack_trunk(Workshop& work, const PackItem& item) {
    const std::string& name = plan_.index.shards[item.number];
    const std::shared_ptr<const OpenShard> shard = sources_.open(name);
    const TrunkPlan trunk = plan_trunk(shard->meta.header, plan_.config, options_.planes);
    ItemRecord record;
    record.sources.push_back(mark_of(*shard));
    record.planes = planned_planes(trunk);
    if (item.store_bytes > 0) {
      const fs::path path = options_.store / trunk_file_name(item.number);
      TrunkResult result =
          write_trunk(work, trunk, shard->file, shard->meta.header.data_offset, partial_path(path));
      check_unchanged(options_.source, shard->meta);
      if (hash_from_disk(work, partial_path(path)) != result.xxh3) fail_read_back(path.string());
      record.planes = std::move(result.planes);
      record.checksums.push_back(result.xxh3);
      record.files.push_back(mark_of_partial(path));
    }
    if (options_.link) return record;
    const fs::path head = head_path(options_.store, name);
    const File buffered = File::open_read(options_.source / name);
    const std::string text = read_head(buffered, shard->meta.header, trunk.leftovers);
    write_file_atomically(partial_path(head), text);
    record.checksums.push_back(xxh3_64(std::as_bytes(std::span(text))));
    record.files.push_back(mark_of_partial(head));
    return record;
  }

  ItemRecord pack_layer(Workshop& work, const PackItem& item) {
    std::vector<std::shared_ptr<const OpenShard>> shards(plan_.index.shards.size());
    ItemRecord record;
    for (const std::uint32_t number : item.shards) {
      shards[number] = sources_.open(plan_.index.shards[number]);
      record.sources.push_back(mark_of(*shards[number]));
    }
    std::vector<SourceExpert> experts;
    const std::uint64_t first = plan_.experts.first_records()[item.number];
    for (std::uint64_t e = 0; e < plan_.experts.experts; ++e) {
      const ExpertRecord& place = plan_.experts.records[first + e];
      const RunLayout& layout = plan_.experts.layouts[place.layout];
      experts.push_back({{&shards[place.file]->file, place.offset, layout.bytes}, layout});
    }
    if (options_.link) {
      std::vector<FileRun> runs;
      for (const SourceExpert& expert : experts) runs.push_back(expert.run);
      record.checksums = hash_runs(work, runs);
    } else {
      const LayerPlan layer = plan_records(source_layouts(plan_, item.number), journal_.weights());
      std::vector<fs::path> partials;
      for (const fs::path& path : final_paths(item)) partials.push_back(partial_path(path));
      record.checksums = write_records(work, layer, experts, partials);
      if (hash_layer(work, item, true) != record.checksums) fail_read_back(partials.front().string());
      for (std::size_t i = 0; i < partials.size(); ++i) {
        if (layer.file_bytes[i] > 0) record.files.push_back(mark_of_partial(final_paths(item)[i]));
      }
    }
    for (const std::uint32_t number : item.shards) check_unchanged(options_.source, shards[number]->meta);
    return record;
  }

  // Checksums of a layer's records as they are on the disk.
  std::vector<std::uint64_t> hash_layer(Workshop& work, const PackItem& item, bool partial) const {
    const LayerPlan layer = plan_records(source_layouts(plan_, item.number), journal_.weights());
    std::vector<File> files(layer.file_bytes.size());
    const std::vector<fs::path> paths = final_paths(item);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (layer.file_bytes[i] == 0) continue;
      const fs::path path = partial ? partial_path(paths[i]) : paths[i];
      File::open_read(path).drop_cache();
      files[i] = File::open_read(path, Caching::kDirect);
    }
    std::vector<FileRun> runs;
    for (const PlannedRecord& record : layer.records) {
      runs.push_back({&files[record.stripe], record.offset, record.layout.bytes});
    }
    return hash_runs(work, runs);
  }

  // In a download cache the shard is a link; the space is in the file that it points to.
  void delete_if_done(std::uint32_t shard) const {
    if (!options_.delete_source) return;
    const bool needed = std::ranges::any_of(pending_, [&](std::size_t i) {
      return std::ranges::find(plan_.items[i].shards, shard) != plan_.items[i].shards.end();
    });
    const fs::path path = options_.source / plan_.index.shards[shard];
    if (needed || !fs::exists(path)) return;
    if (fs::is_symlink(path)) fs::remove(fs::canonical(path));
    fs::remove(path);
  }

  const PackOptions& options_;
  const PackPlan plan_;
  PackJournal& journal_;
  SourceShards sources_;
  std::vector<ItemRecord> records_;   // by item
  std::vector<std::size_t> pending_;  // items without a record, in order
  PackOutcome outcome_;
};

// The journal names files, and the next run may start in another folder.
PackOptions with_absolute_targets(PackOptions options) {
  options.store = canonical_path(options.store);
  for (Stripe& stripe : options.stripes) stripe.folder = canonical_path(stripe.folder);
  return options;
}

// A finished store of the same job: nothing to do but to tidy up what a kill between the last two steps left.
std::optional<PackOutcome> find_completed(const PackOptions& options, const PackPlan& plan) {
  if (!is_store(options.store)) return std::nullopt;
  PackOutcome outcome;
  outcome.report = load_store_report(options.store);
  if (outcome.report.fingerprint != plan.fingerprint) {
    fail(ErrorCode::kExists,
         "{} is a store that was packed from another source or with other options; choose "
         "another folder",
         options.store.string());
  }
  open_store(options.store);
  outcome.already_complete = true;
  outcome.items = plan.items.size();
  return outcome;
}

}  // namespace

PackOutcome pack_checkpoint(const PackOptions& given) {
  const PackOptions options = with_absolute_targets(given);
  check_pack_options(options);
  const SourceHeads heads(options);
  PackPlan plan = plan_pack(options, [&](const std::string& name) { return heads.read(name); });
  if (auto completed = find_completed(options, plan)) {
    PackJournal::discard(options.store);
    return *std::move(completed);
  }
  PackJournal journal(options.store, plan.fingerprint, PackJournal::Job::kPack);
  return PackJob(options, std::move(plan), journal).run();
}

PackEstimate estimate_pack(const PackOptions& options) {
  check_pack_options(options);
  const CheckpointIndex index = load_checkpoint_index(options.source);
  const PackPlan plan = plan_pack(
      options, [&](const std::string& name) { return read_shard_header(options.source, index, name); });
  PackEstimate estimate;
  estimate.planes = plan.planes;
  const std::vector<Stripe> folders = record_folders(options);
  std::vector<double> weights;
  for (const Stripe& stripe : folders) weights.push_back(stripe.weight > 0 ? stripe.weight : 1);
  std::vector<std::uint64_t> needed(folders.size(), 0);
  for (const PackItem& item : plan.items) {
    estimate.source_bytes += item.source_bytes;
    if (item.is_trunk) {
      estimate.trunk_bytes += item.store_bytes;
      continue;
    }
    estimate.expert_bytes += item.store_bytes;
    estimate.experts += plan.experts.experts;
    const LayerPlan layer = plan_records(source_layouts(plan, item.number), weights);
    for (const PlannedRecord& record : layer.records)
      estimate.record_bytes = std::max(estimate.record_bytes, record.layout.bytes);
    if (options.link) continue;
    for (std::size_t i = 0; i < needed.size(); ++i) needed[i] += layer.file_bytes[i];
  }
  estimate.folders.push_back(
      {options.store, estimate.trunk_bytes, free_bytes(existing_folder(options.store))});
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (options.stripes.empty()) {
      estimate.folders.front().needed += needed[i];
    } else {
      estimate.folders.push_back(
          {folders[i].folder, needed[i], free_bytes(existing_folder(folders[i].folder))});
    }
  }
  return estimate;
}

}  // namespace perigee
