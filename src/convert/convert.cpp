#include "convert/convert.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/disk_rate.h"
#include "base/error.h"
#include "base/log.h"
#include "convert/download_watch.h"
#include "convert/finalise.h"
#include "convert/job_setup.h"
#include "convert/selection.h"
#include "convert/shard_converter.h"
#include "convert/sidecars.h"
#include "verify/verify.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

// Room that must stay free beside the shards, for metadata and the journal.
constexpr std::uint64_t kSpareBytes = 64ull << 20;
constexpr double kSampleFraction = 0.02;
constexpr auto kPollInterval = std::chrono::milliseconds(500);

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

RequantMethod library_method(Layout layout) {
  return layout == Layout::kCompressedTensors ? RequantMethod::kCompressedTensorsMinMax
                                              : RequantMethod::kModelOptMax;
}

const char* verify_mode_name(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::kFull:
      return "full";
    case VerifyMode::kSample:
      return "sample";
    case VerifyMode::kNone:
      return "none";
  }
  return "?";
}

class ConversionJob {
 public:
  explicit ConversionJob(const ConvertOptions& options)
      : options_(options),
        index_(load_checkpoint_index(options.source)),
        config_text_(read_small_file(options.source / "config.json", kMaxConfigBytes)),
        conversion_(make_conversion(options, index_)),
        selected_(select_shards(index_, options.shards, options.layers)),
        fingerprint_(job_fingerprint(options, conversion_, index_, selected_, config_text_)),
        sources_(options.source, index_) {
    parse_config(config_text_, (options.source / "config.json").string());
    compute_.conversion = conversion_;
    compute_.policy = options.policy;
    compute_.policy.requant_method = library_method(options.layout);
    compute_.inexact_scale = options.inexact_scale;
  }

  std::vector<ShardEstimate> estimate() {
    std::vector<ShardEstimate> estimates;
    for (const std::string& name : selected_) {
      const ShardPlan plan = plan_checked(name);
      estimates.push_back({name, plan.source_bytes, plan.file_bytes, plan.outputs.size()});
    }
    return estimates;
  }

  ConvertOutcome run() {
    if (std::optional<ConvertOutcome> done = find_completed()) return *std::move(done);
    if (options_.overwrite) clear_output();
    if (options_.resume_only && !Journal::exists(options_.output)) {
      fail(ErrorCode::kNotFound, "{} holds no interrupted conversion to resume", options_.output.string());
    }
    Journal journal(options_.output, fingerprint_, options_.rank, options_.world_size, options_.cancel);
    journal_ = &journal;
    warn_about_unknown_names();
    list_sidecars(options_.source);  // a broken link among them is better known now than after hours
    const std::vector<std::string> mine = shards_of_rank(selected_, options_.rank, options_.world_size);
    convert_shards(mine);
    ConvertOutcome outcome = std::move(outcome_);
    if (options_.rank != 0) return outcome;
    wait_for_other_ranks();
    outcome.report = finalise_checkpoint(options_, report_frame(), journal, selected_);
    outcome.finalised = true;
    journal.remove();
    return outcome;
  }

 private:
  static constexpr std::uint64_t kMaxConfigBytes = 16ull << 20;

  ConversionReport report_frame() const {
    ConversionReport report;
    report.fingerprint = fingerprint_;
    report.source_name = fs::weakly_canonical(options_.source).filename().string();
    report.source_format = expert_format_name(conversion_.source);
    report.layout = layout_name(options_.layout);
    report.activations = activations_name(options_.activations);
    report.method = method_name(options_.policy.method);
    report.partial = selected_.size() != index_.shards.size();
    return report;
  }

  void check_cancelled() const {
    if (options_.cancel != nullptr) options_.cancel->check();
  }

  // They are carried byte for byte like everything that is no expert, but nobody should have to guess why.
  void warn_about_unknown_names() const {
    std::vector<std::string_view> unknown;
    for (const IndexEntry& entry : index_.entries) {
      if (parse_tensor_name(entry.name).tensor_class == TensorClass::kUnknown) unknown.push_back(entry.name);
    }
    if (unknown.empty()) return;
    log_warning("{} of the tensors have names that K3 does not have, the first is {}; copied as they are",
                unknown.size(), unknown.front());
  }

  // A plan for a shard whose experts are what the manifest says.
  ShardPlan plan_checked(const std::string& name) {
    check_cancelled();
    const std::shared_ptr<const OpenShard> shard = sources_.open(name);
    const ExpertFormat found = detect_expert_format(shard->meta.header, (options_.source / name).string());
    if (found != ExpertFormat::kNone && found != conversion_.source) {
      fail(ErrorCode::kCorrupt, "{} holds {} experts, but the manifest in config.json says {}",
           (options_.source / name).string(), expert_format_name(found),
           expert_format_name(conversion_.source));
    }
    return plan_shard(sources_, name, conversion_);
  }

  std::optional<ConvertOutcome> find_completed();
  void clear_output() const;
  void check_free_space(const std::vector<std::string>& pending);
  void convert_shards(const std::vector<std::string>& mine);
  std::vector<std::string> find_pending(const std::vector<std::string>& mine);
  void convert_one(const std::string& name, Progress& progress);
  void verify_partial(const std::string& name, const fs::path& partial, std::uint64_t written,
                      ShardRecord& record, Progress& progress);
  void delete_source_shard(const ShardPlan& plan) const;
  void wait_for_other_ranks();
  std::uint64_t planned_traffic(const std::vector<std::string>& pending) const;

  const ConvertOptions& options_;
  const CheckpointIndex index_;
  const std::string config_text_;
  const Conversion conversion_;
  const std::vector<std::string> selected_;
  const std::string fingerprint_;
  SourceShards sources_;
  ComputeOptions compute_;
  ConvertOutcome outcome_;
  Journal* journal_ = nullptr;
  std::unique_ptr<AsyncIo> io_;
  std::unique_ptr<Pipeline> pipeline_;
  std::optional<TensorCatalog> verify_source_;
};

// A finished checkpoint of the same job: nothing to do but to tidy up what a kill between the last two steps
// left.
std::optional<ConvertOutcome> ConversionJob::find_completed() {
  const fs::path report_path = options_.output / kReportFileName;
  if (options_.overwrite || Journal::exists(options_.output) || !fs::exists(report_path) ||
      !fs::exists(options_.output / kIndexFileName)) {
    return std::nullopt;
  }
  std::optional<ConversionReport> report = report_from_json(read_small_file(report_path, kMaxConfigBytes));
  if (!report || report->fingerprint != fingerprint_) return std::nullopt;
  for (const ShardRecord& shard : report->records) {
    std::error_code missing;
    if (fs::file_size(options_.output / shard.file_name, missing) == shard.output_bytes && !missing) continue;
    fail(ErrorCode::kMismatch,
         "{} was complete, but {} is missing or has another size now; make the checkpoint again with "
         "--overwrite",
         options_.output.string(), shard.file_name);
  }
  Journal::discard(options_.output);
  ConvertOutcome outcome;
  outcome.report = *std::move(report);
  outcome.already_complete = true;
  return outcome;
}

// --overwrite removes only what perigee made: the index first, so that nothing half deleted looks complete.
void ConversionJob::clear_output() const {
  const bool ours = Journal::exists(options_.output) || fs::exists(options_.output / kReportFileName);
  if (!fs::exists(options_.output) || fs::is_empty(options_.output)) return;
  if (!ours) {
    fail(ErrorCode::kExists, "{} was not made by perigee; remove it yourself or choose another folder",
         options_.output.string());
  }
  Journal::refuse_if_busy(options_.output);
  fs::remove(options_.output / kIndexFileName);
  sync_directory(options_.output);
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.output))
    fs::remove_all(entry.path());
  sync_directory(options_.output);
}

// Shards of this rank that have no finished output yet.
std::vector<std::string> ConversionJob::find_pending(const std::vector<std::string>& mine) {
  std::vector<std::string> pending;
  for (const std::string& name : mine) {
    check_cancelled();
    const bool has_source = fs::exists(options_.source / name);
    std::optional<ShardRecord> record;
    if (!has_source) {
      record = journal_->find_finished(name, nullptr, options_.resume_check);
    } else if (!options_.follow || is_complete_download(options_.source / name)) {
      record = journal_->find_finished(name, &sources_.open(name)->meta, options_.resume_check);
    }
    if (record) {
      ++outcome_.shards_resumed;
      // A run that died between a shard's last step and the deletion of its source.
      if (has_source && options_.delete_source && record->verification == "full") {
        delete_source_shard(plan_checked(name));
      }
    } else {
      pending.push_back(name);
    }
  }
  return pending;
}

void ConversionJob::check_free_space(const std::vector<std::string>& pending) {
  if (options_.follow || options_.delete_source) return;  // found shard by shard when space is reserved
  std::uint64_t needed = kSpareBytes;
  for (const std::string& name : pending) needed += plan_checked(name).file_bytes;
  const std::uint64_t available = free_bytes(options_.output);
  if (available >= needed) return;
  fail(ErrorCode::kNoSpace,
       "{} has {} free, but the {} shards still to write need {}; free some space or use another disk",
       options_.output.string(), format_bytes(available), pending.size(), format_bytes(needed));
}

void ConversionJob::convert_shards(const std::vector<std::string>& mine) {
  std::vector<std::string> pending = find_pending(mine);
  if (pending.empty()) return;
  check_free_space(pending);
  io_ = make_async_io(options_.io);
  pipeline_ = std::make_unique<Pipeline>(
      *io_, PipelineOptions{options_.jobs, options_.io_depth, options_.memory_bytes, options_.cancel});
  Progress progress("converting", planned_traffic(pending), options_.progress);
  while (!pending.empty()) {
    const std::size_t number = mine.size() - pending.size() + 1;
    std::string name;
    if (options_.follow) {
      name = take_complete_download(options_.source, pending, options_.wait_timeout_seconds, options_.cancel);
    } else {
      name = pending.front();
      pending.erase(pending.begin());
    }
    progress.set_detail(fmt::format("shard {}/{}", number, mine.size()));
    convert_one(name, progress);
  }
  progress.finish();
}

// Bytes that progress will count: every source byte once, and every output byte (nearly as many) when it is
// verified.
std::uint64_t ConversionJob::planned_traffic(const std::vector<std::string>& pending) const {
  std::uint64_t bytes = 0;
  for (const std::string& name : pending) {
    std::error_code error;
    const std::uint64_t size = fs::file_size(options_.source / name, error);
    if (error) continue;
    bytes += options_.verify == VerifyMode::kFull ? 2 * size : size;
  }
  return bytes;
}

void ConversionJob::convert_one(const std::string& name, Progress& progress) {
  const ShardPlan plan = plan_checked(name);
  const ShardHeader& source = plan.sources.front()->meta;
  const fs::path partial = journal_->partial_path(name);
  journal_->begin(name);
  const auto start = std::chrono::steady_clock::now();
  ShardRecord record;
  // A full verification computes the SHA-256 from what it reads back; otherwise it is that of what was
  // written.
  const bool full = options_.verify == VerifyMode::kFull;
  ShardResult result = convert_shard(*io_, *pipeline_, plan, compute_, partial, !full, progress);
  outcome_.convert_seconds += seconds_since(start);
  try {
    for (const auto& used : plan.sources) check_unchanged(options_.source, used->meta);
    record.sha256 = result.digest.sha256;
    if (options_.verify != VerifyMode::kNone)
      verify_partial(name, partial, result.digest.xxh3, record, progress);
  } catch (...) {
    fs::remove(partial);
    throw;
  }
  record.file_name = name;
  record.source_bytes = source.file_bytes;
  record.source_modified_ns = source.modified_ns;
  record.output_bytes = plan.file_bytes;
  record.output_tensors = plan.outputs.size();
  record.output_data_bytes = plan.file_bytes - plan.header.size();
  record.fp8_tensors = plan.fp8_tensors;
  record.probe = content_probe(partial);
  record.verification = verify_mode_name(options_.verify);
  record.modules = std::move(result.modules);
  journal_->commit(record);
  ++outcome_.shards_converted;
  outcome_.source_bytes_read += source.file_bytes;
  outcome_.output_bytes_written += plan.file_bytes;
  if (options_.delete_source) delete_source_shard(plan);
}

// Other shards may still need this one when an expert is split over files; then it stays.
void ConversionJob::delete_source_shard(const ShardPlan& plan) const {
  const bool alone = std::ranges::all_of(
      plan.sources, [&](const auto& used) { return used->meta.file_name == plan.file_name; });
  if (!alone) {
    log_warning("{} is kept: it holds parts of experts whose other parts are in other shards",
                plan.file_name);
    return;
  }
  // In a download cache the shard is a link; the space is in the file that it points to.
  const fs::path shard = options_.source / plan.file_name;
  if (fs::is_symlink(shard)) fs::remove(fs::canonical(shard));
  fs::remove(shard);
}

// Proves the written file against the source with the verifier's own decoding. `written` is the hash of what
// was written; a full verification puts its SHA-256 and the measured errors into the record.
void ConversionJob::verify_partial(const std::string& name, const fs::path& partial, std::uint64_t written,
                                   ShardRecord& record, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const bool full = options_.verify == VerifyMode::kFull;
  VerifyOptions verify;
  verify.cancel = options_.cancel;
  verify.workers = options_.jobs;
  verify.io_depth = options_.io_depth;
  verify.memory_bytes = options_.memory_bytes;
  verify.hash = full;
  verify.sample_fraction = full ? 1.0 : kSampleFraction;
  verify.max_failures = 1;
  if (!verify_source_) verify_source_.emplace(options_.source, load_checkpoint_index(options_.source));
  OutputShard shard;
  shard.path = partial;
  shard.name = name;
  shard.source_shard = name;
  const ShardVerification result = verify_shard(*io_, *verify_source_, shard, verify, &progress);
  outcome_.verify_seconds += seconds_since(start);
  std::string reason = result.failures.kept.empty() ? "" : result.failures.kept.front().message;
  // The hash covers what a verification only hashes, and a bit that was wrong in just one of two reads.
  if (full && reason.empty() && result.xxh3 != written) reason = "the hash of the file is another";
  if (!reason.empty()) {
    fail(ErrorCode::kMismatch,
         "{} was written but is not what it must be when read back: {}; check disk and memory, then run the "
         "command "
         "again",
         name, reason);
  }
  if (!full) return;
  record.sha256 = result.sha256;
  for (const VerifiedModule& module : result.modules) {
    if (module.measured && module.changed_blocks16 > 0) record.expert_error.add(module.error);
  }
  for (const VerifiedFp8& tensor : result.fp8) record.fp8_error.add(tensor.error);
}

void ConversionJob::wait_for_other_ranks() {
  if (options_.world_size == 1) return;
  auto last_news = std::chrono::steady_clock::now();
  std::size_t known = 0;
  for (;;) {
    std::vector<std::string> missing;
    for (const std::string& name : selected_) {
      if (!journal_->is_in_place(name)) missing.push_back(name);
    }
    if (missing.empty()) return;
    if (selected_.size() - missing.size() > known) {
      known = selected_.size() - missing.size();
      last_news = std::chrono::steady_clock::now();
    }
    if (seconds_since(last_news) > options_.wait_timeout_seconds) {
      const auto position = std::ranges::find(selected_, missing.front()) - selected_.begin();
      fail(ErrorCode::kNotFound,
           "no shard was finished for {}: {} of rank {} and {} others are missing; start that rank again "
           "with the "
           "same options, then rank 0",
           format_duration(options_.wait_timeout_seconds), missing.front(),
           static_cast<unsigned>(position) % options_.world_size, missing.size() - 1);
    }
    check_cancelled();
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace

std::vector<ShardEstimate> estimate_conversion(const ConvertOptions& options) {
  check_job_options(options);
  return ConversionJob(options).estimate();
}

std::string outcome_to_json(const ConvertOutcome& outcome) {
  nlohmann::json document = nlohmann::json::parse(report_to_json(outcome.report));
  document["run"] = {{"already_complete", outcome.already_complete},
                     {"finalised", outcome.finalised},
                     {"shards_converted", outcome.shards_converted},
                     {"shards_resumed", outcome.shards_resumed},
                     {"source_bytes_read", outcome.source_bytes_read},
                     {"output_bytes_written", outcome.output_bytes_written},
                     {"convert_seconds", outcome.convert_seconds},
                     {"verify_seconds", outcome.verify_seconds}};
  return document.dump(2) + "\n";
}

ConvertOutcome convert_checkpoint(const ConvertOptions& options) {
  check_job_options(options);
  return ConversionJob(options).run();
}

}  // namespace perigee
