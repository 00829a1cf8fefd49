#include "pack/finish_store.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "convert/sidecars.h"
#include "pack/shard_head.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr const char* kQuantConfigName = "hf_quant_config.json";
constexpr std::uint64_t kMaxIndexBytes = 1ull << 30;
constexpr std::uint64_t kMaxConfigBytes = 16ull << 20;

class Finisher {
 public:
  Finisher(const PackOptions& options, const PackPlan& plan, const std::vector<ItemRecord>& records,
           const std::vector<double>& weights)
      : options_(options), plan_(plan), records_(records), weights_(weights) {}

  StoreReport finish() {
    carry_side_files();
    write("config.json", plan_.config_text);
    const fs::path quant = options_.source / kQuantConfigName;
    if (fs::exists(quant)) write(kQuantConfigName, read_small_file(quant, kMaxConfigBytes));
    const StoreIndex index = store_index();
    const StoreReport report = make_report(index);
    write(kStoreReportName, store_report_to_json(report));
    write(kIndexFileName, serialize_index(trunk_index(report)));
    write(kStoreIndexName, serialize_store_index(index));
    return report;
  }

 private:
  void write(const char* name, const std::string& text) const {
    write_file_atomically(options_.store / name, text);
  }

  // No new README is written here, so the source's keeps its name.
  void carry_side_files() const {
    SidecarList list = list_sidecars(options_.source);
    for (const std::string& skipped : list.skipped) log_warning("{}", skipped);
    for (SidecarFile& file : list.files) file.output_name = file.source_name;
    copy_sidecars(options_.source, options_.store, list);
  }

  StoreFile store_file(const fs::path& path, std::uint64_t bytes) const {
    const fs::path store = canonical_path(options_.store);
    const fs::path absolute = canonical_path(path);
    const std::string relative = absolute.lexically_relative(store).string();
    return {relative, relative.starts_with("..") ? absolute.string() : std::string(), bytes};
  }

  StoreIndex store_index() const {
    StoreIndex index;
    index.config_checksum = xxh3_64(std::as_bytes(std::span(plan_.config_text)));
    index.linked = options_.link;
    index.table = plan_.experts;
    index.table.has_checksums = true;
    if (options_.link) {
      for (std::size_t i = 0; i < plan_.index.shards.size(); ++i) {
        index.files.push_back(store_file(options_.source / plan_.index.shards[i], plan_.shard_bytes[i]));
      }
    } else {
      for (RunLayout& layout : index.table.layouts) layout = record_layout(layout);
    }
    const std::vector<std::uint64_t> first = plan_.experts.first_records();
    for (std::size_t i = 0; i < plan_.items.size(); ++i) {
      const PackItem& item = plan_.items[i];
      if (item.is_trunk) continue;
      const std::span<ExpertRecord> layer =
          std::span(index.table.records).subspan(first[item.number], index.table.experts);
      for (std::size_t e = 0; e < layer.size(); ++e) layer[e].checksum = records_[i].checksums[e];
      if (!options_.link) place_layer(item.number, layer, index);
    }
    return index;
  }

  void place_layer(std::uint64_t layer, std::span<ExpertRecord> records, StoreIndex& index) const {
    const LayerPlan plan = plan_records(source_layouts(plan_, layer), weights_);
    const std::vector<Stripe> folders = record_folders(options_);
    std::vector<std::uint32_t> numbers(folders.size());
    for (std::size_t i = 0; i < folders.size(); ++i) {
      if (plan.file_bytes[i] == 0) continue;
      numbers[i] = static_cast<std::uint32_t>(index.files.size());
      index.files.push_back(store_file(folders[i].folder / record_file_name(layer), plan.file_bytes[i]));
    }
    for (std::size_t e = 0; e < records.size(); ++e) {
      records[e].file = numbers[plan.records[e].stripe];
      records[e].offset = plan.records[e].offset;
    }
  }

  StoreReport make_report(const StoreIndex& index) const {
    StoreReport report;
    report.fingerprint = plan_.fingerprint;
    report.source_name = canonical_path(options_.source).filename().string();
    const bool nvfp4 = !index.table.layouts.empty() &&
                       index.table.layouts.front().matrices[0].format == WeightFormat::kNvfp4;
    report.expert_format = nvfp4 ? "nvfp4" : "mxfp4";
    report.linked = options_.link;
    report.experts = index.table.records.size();
    for (const ExpertRecord& record : index.table.records) {
      const std::uint64_t bytes = index.table.layouts[record.layout].bytes;
      report.expert_bytes += bytes;
      report.largest_record = std::max(report.largest_record, bytes);
    }
    report.shards.resize(plan_.index.shards.size());
    for (std::size_t i = 0; i < plan_.items.size(); ++i) {
      if (plan_.items[i].is_trunk) add_trunk(plan_.items[i], records_[i], report);
    }
    return report;
  }

  void add_trunk(const PackItem& item, const ItemRecord& record, StoreReport& report) const {
    StoreReport::Shard& shard = report.shards[item.number];
    shard.name = plan_.index.shards[item.number];
    shard.bytes = plan_.shard_bytes[item.number];
    if (item.store_bytes > 0) shard.trunk = trunk_file_name(item.number);
    for (std::size_t i = 0; i < record.files.size(); ++i) {
      const std::string path = record.files[i].path.lexically_relative(options_.store).string();
      report.parts.push_back({path, record.files[i].bytes, record.checksums[i]});
    }
    for (const auto& [plane, sums] : record.planes) report.planes[plane].add(sums);
  }

  CheckpointIndex trunk_index(const StoreReport& report) const {
    CheckpointIndex index;
    std::uint64_t total = 0;
    for (const StoreReport::Shard& shard : report.shards) {
      if (shard.trunk.empty()) continue;
      const SafetensorsHeader header = read_safetensors_header(File::open_read(options_.store / shard.trunk));
      const auto number = static_cast<std::uint32_t>(index.shards.size());
      index.shards.push_back(shard.trunk);
      for (const TensorInfo& tensor : header.tensors) index.entries.push_back({tensor.name, number});
      total += header.data_bytes;
    }
    index.total_size = total;
    return index;
  }

  const PackOptions& options_;
  const PackPlan& plan_;
  const std::vector<ItemRecord>& records_;
  const std::vector<double>& weights_;
};

}  // namespace

void keep_source_index(const PackOptions& options) {
  const fs::path folder = options.store / kSourceFolder;
  fs::create_directories(folder);
  const fs::path index = options.source / kIndexFileName;
  if (fs::exists(index))
    write_file_atomically(folder / kKeptIndexName, read_small_file(index, kMaxIndexBytes));
}

StoreReport finish_store(const PackOptions& options, const PackPlan& plan,
                         const std::vector<ItemRecord>& records, const std::vector<double>& weights) {
  return Finisher(options, plan, records, weights).finish();
}

}  // namespace perigee
