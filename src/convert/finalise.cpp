#include "convert/finalise.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "convert/metadata.h"
#include "convert/model_card.h"
#include "convert/sidecars.h"
#include "engines/matcher.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfigBytes = 16ull << 20;
constexpr std::uint64_t kMaxModulesBytes = 1ull << 30;

class Finaliser {
 public:
  Finaliser(const ConvertOptions& options, const Journal& journal) : options_(options), journal_(journal) {}

  ConversionReport finish(ConversionReport report, const std::vector<std::string>& shards) {
    read_headers(shards);
    write_metadata();
    const SidecarList sidecars = carry_sidecars();
    std::string modules;
    for (const std::string& name : shards) {
      ShardRecord record = finished_record(name);
      modules += modules_to_json_lines(record);
      add_record(report, std::move(record));
    }
    write(kModulesFileName, modules);
    write(kReportFileName, report_to_json(report));
    write("README.md", make_model_card(report, card_context(sidecars)));
    const std::string index = serialize_index(index_);
    write_checksums(report, index);
    write(kIndexFileName, index);
    return report;
  }

 private:
  void read_headers(const std::vector<std::string>& shards) {
    std::uint64_t total_size = 0;
    for (const std::string& name : shards) {
      const SafetensorsHeader header = read_safetensors_header(File::open_read(options_.output / name));
      const auto shard = static_cast<std::uint32_t>(index_.shards.size());
      index_.shards.push_back(name);
      for (const TensorInfo& tensor : header.tensors) index_.entries.push_back({tensor.name, shard});
      total_size += header.data_bytes;
      std::ranges::move(stored_modules(header.tensors), std::back_inserter(stored_));
    }
    index_.total_size = total_size;
  }

  // The metadata is tried against the engines' own name matching before anybody can load it.
  void write_metadata() {
    const fs::path source_config = options_.source / "config.json";
    const std::string text = read_small_file(source_config, kMaxConfigBytes);
    const K3Config config = parse_config(text, source_config.string());
    const Metadata metadata =
        make_metadata(text, source_config.string(), config, options_.layout, options_.activations);
    if (options_.layout != Layout::kMxfp4) {
      const MatcherReport matches = check_exclusions(nlohmann::json::parse(metadata.config_json), stored_);
      if (!matches.clean()) {
        fail(ErrorCode::kInternal, "the metadata made for {} would be misread by an engine: {}",
             options_.output.string(), matches.first_problem());
      }
    }
    write("config.json", metadata.config_json);
    if (metadata.hf_quant_config_json) write("hf_quant_config.json", *metadata.hf_quant_config_json);
  }

  SidecarList carry_sidecars() {
    SidecarList sidecars = list_sidecars(options_.source);
    for (const std::string& skipped : sidecars.skipped) log_warning("not copied: {}", skipped);
    copy_sidecars(options_.source, options_.output, sidecars);
    for (const SidecarFile& file : sidecars.files) small_files_.push_back(file.output_name);
    return sidecars;
  }

  ShardRecord finished_record(const std::string& name) const {
    std::optional<ShardRecord> record = journal_.find_finished(name, nullptr, ResumeCheck::kProbe);
    if (!record) {
      fail(ErrorCode::kMismatch, "{} changed after it was written; run the command again to convert it anew",
           (options_.output / name).string());
    }
    return *std::move(record);
  }

  ModelCardContext card_context(const SidecarList& sidecars) const {
    ModelCardContext context;
    const auto license = std::ranges::find_if(
        sidecars.files, [](const SidecarFile& file) { return file.output_name.starts_with("LICENSE"); });
    if (license != sidecars.files.end()) context.license_file = license->output_name;
    if (options_.policy.over_span == OverSpan::kSaturate) context.more_options = "--over-span saturate";
    if (options_.policy.over_span == OverSpan::kRequant) context.more_options = "--over-span requant";
    return context;
  }

  // In the format of sha256sum, sorted by name, for everything but itself; the index is written after it.
  void write_checksums(const ConversionReport& report, const std::string& index) {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const ShardRecord& record : report.records) lines.emplace_back(record.file_name, record.sha256);
    for (const std::string& name : small_files_) {
      const std::string bytes = read_small_file(options_.output / name, kMaxModulesBytes);
      lines.emplace_back(name, sha256_hex(std::as_bytes(std::span(bytes))));
    }
    lines.emplace_back(kIndexFileName, sha256_hex(std::as_bytes(std::span(index))));
    std::ranges::sort(lines);
    std::string text;
    for (const auto& [name, hash] : lines) text += hash + "  " + name + "\n";
    write_file_atomically(options_.output / kChecksumsFileName, text,
                          journal_.partial_path(kChecksumsFileName));
  }

  void write(const std::string& name, std::string_view text) {
    write_file_atomically(options_.output / name, text, journal_.partial_path(name));
    small_files_.push_back(name);
  }

  const ConvertOptions& options_;
  const Journal& journal_;
  CheckpointIndex index_;
  std::vector<StoredModule> stored_;
  std::vector<std::string> small_files_;  // written so far, relative to the output
};

}  // namespace

ConversionReport finalise_checkpoint(const ConvertOptions& options, ConversionReport report,
                                     const Journal& journal, const std::vector<std::string>& shards) {
  return Finaliser(options, journal).finish(std::move(report), shards);
}

}  // namespace perigee
