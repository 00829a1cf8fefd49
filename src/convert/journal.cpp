#include "convert/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "convert/report_json.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFolderName = ".perigee";
constexpr const char* kJobFile = "job.json";
constexpr std::string_view kRankPrefix = "rank-";
constexpr std::uint64_t kMaxJournalBytes = 256ull << 20;
constexpr std::uint64_t kProbeHead = 1ull << 20;
constexpr std::uint64_t kProbeBlock = 4096;
constexpr std::uint64_t kProbeBlocks = 64;

// Rank and world size of every converter that is at work with this journal, this process among them.
std::vector<std::pair<std::string, std::string>> ranks_at_work(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> ranks;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".lock" || !name.starts_with(kRankPrefix)) continue;
    const std::optional<std::string> world_size = LockFile::held_text(entry.path());
    if (world_size) ranks.emplace_back(name.substr(kRankPrefix.size()), *world_size);
  }
  return ranks;
}

[[noreturn]] void fail_busy(const fs::path& output, const std::string& rank, const std::string& world_size) {
  fail(ErrorCode::kExists,
       "another converter (rank {}) is at work in {} with --world-size {}; wait for it or stop it", rank,
       output.string(), world_size);
}

json to_json(const ShardRecord& record, const std::string& fingerprint) {
  json modules = json::array();
  for (const ModuleRecord& module : record.modules) modules.push_back(module_to_json(module));
  return {{"fingerprint", fingerprint},
          {"file_name", record.file_name},
          {"source_bytes", record.source_bytes},
          {"source_modified_ns", record.source_modified_ns},
          {"output_bytes", record.output_bytes},
          {"output_tensors", record.output_tensors},
          {"output_data_bytes", record.output_data_bytes},
          {"fp8_tensors", record.fp8_tensors},
          {"sha256", record.sha256},
          {"probe", record.probe},
          {"expert_error", error_to_json(record.expert_error)},
          {"fp8_error", error_to_json(record.fp8_error)},
          {"verification", record.verification},
          {"modules", std::move(modules)}};
}

ShardRecord from_json(const json& object) {
  ShardRecord record;
  record.file_name = object.at("file_name").get<std::string>();
  record.source_bytes = object.at("source_bytes").get<std::uint64_t>();
  record.source_modified_ns = object.at("source_modified_ns").get<std::int64_t>();
  record.output_bytes = object.at("output_bytes").get<std::uint64_t>();
  record.output_tensors = object.at("output_tensors").get<std::uint64_t>();
  record.output_data_bytes = object.at("output_data_bytes").get<std::uint64_t>();
  record.fp8_tensors = object.at("fp8_tensors").get<std::uint64_t>();
  record.sha256 = object.at("sha256").get<std::string>();
  record.probe = object.at("probe").get<std::string>();
  record.expert_error = error_from_json(object.at("expert_error"));
  record.fp8_error = error_from_json(object.at("fp8_error"));
  record.verification = object.at("verification").get<std::string>();
  for (const json& module : object.at("modules")) record.modules.push_back(module_from_json(module));
  return record;
}

}  // namespace

std::string content_probe(const fs::path& path) {
  const File file = File::open_read(path);
  const std::uint64_t size = file.size();
  std::vector<std::byte> sample(std::min(size, kProbeHead));
  file.read_exact(sample, 0);
  if (size > kProbeHead) {
    const std::uint64_t step = std::max<std::uint64_t>(1, (size - kProbeHead) / kProbeBlocks);
    for (std::uint64_t at = kProbeHead; at < size; at += step) {
      const std::uint64_t length = std::min(kProbeBlock, size - at);
      sample.resize(sample.size() + length);
      file.read_exact(std::span(sample).last(length), at);
    }
  }
  return fmt::format("{}:{:016x}", size, xxh3_64(sample));
}

bool Journal::exists(const fs::path& output) {
  return fs::exists(output / kFolderName / kJobFile);
}

void Journal::discard(const fs::path& output) {
  fs::remove_all(output / kFolderName);
}

void Journal::refuse_if_busy(const fs::path& output) {
  for (const auto& [rank, world_size] : ranks_at_work(output / kFolderName))
    fail_busy(output, rank, world_size);
}

Journal::Journal(const fs::path& output, const std::string& fingerprint, unsigned rank, unsigned world_size,
                 const CancelToken* cancel)
    : output_(output), folder_(output / kFolderName), fingerprint_(fingerprint), cancel_(cancel) {
  // Before anything is touched: a refusal must leave no trace.
  exists(output) ? check_job() : refuse_foreign_contents();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error || !fs::is_directory(folder_)) {
    fail(ErrorCode::kIo, "cannot create the folder {}: {}", folder_.string(),
         error ? error.message() : "something else has that name");
  }
  std::optional<LockFile> lock =
      LockFile::try_take(folder_ / fmt::format("rank-{}.lock", rank), fmt::format("{}", world_size));
  if (!lock) fail_busy(output, fmt::format("{}", rank), fmt::format("{}", world_size));
  lock_ = *std::move(lock);
  // Shares of different world sizes overlap. Whoever comes second sees the first, whatever the order of the
  // locks.
  for (const auto& [other, its_world_size] : ranks_at_work(folder_)) {
    if (its_world_size != fmt::format("{}", world_size)) fail_busy(output, other, its_world_size);
  }
  open_job();
}

void Journal::refuse_foreign_contents() const {
  if (!fs::exists(output_)) return;
  if (!fs::is_directory(output_)) fail(ErrorCode::kExists, "{} is not a folder", output_.string());
  for (const fs::directory_entry& entry : fs::directory_iterator(output_)) {
    if (entry.path().filename() == kFolderName) continue;
    fail(
        ErrorCode::kExists,
        "{} already holds {}; choose an empty folder, or --overwrite to replace a checkpoint made by perigee",
        output_.string(), entry.path().filename().string());
  }
}

void Journal::check_job() const {
  const json job = json::parse(read_small_file(folder_ / kJobFile, kMaxJournalBytes), nullptr, false);
  if (!job.is_object() || !job.contains("fingerprint") || job["fingerprint"] != fingerprint_) {
    fail(ErrorCode::kExists,
         "{} holds an unfinished conversion with other options, another source or another version; finish it "
         "with "
         "those, or start anew with --overwrite",
         output_.string());
  }
}

// Several ranks may start at once: whoever links the job file first defines the job, the others must agree.
void Journal::open_job() {
  const fs::path job_path = folder_ / kJobFile;
  if (!fs::exists(job_path)) {
    const fs::path mine = folder_ / fmt::format("{}.{}", kJobFile, ::getpid());
    const std::string text = json{{"fingerprint", fingerprint_}}.dump() + "\n";
    write_file_atomically(mine, text);
    const int linked = ::link(mine.c_str(), job_path.c_str());
    const int error = errno;
    ::unlink(mine.c_str());
    if (linked != 0 && error != EEXIST) {
      fail_errno(error, fmt::format("cannot start the journal {}", job_path.string()));
    }
    sync_directory(folder_);
    if (linked == 0) return;
  }
  check_job();
  resuming_ = true;
}

fs::path Journal::partial_path(const std::string& file_name) const {
  return folder_ / (file_name + ".partial");
}

fs::path Journal::record_path(const std::string& file_name) const {
  return folder_ / (file_name + ".json");
}

std::optional<ShardRecord> Journal::load(const std::string& file_name) const {
  if (!fs::exists(record_path(file_name))) return std::nullopt;
  try {
    const json object = json::parse(read_small_file(record_path(file_name), kMaxJournalBytes));
    if (object.at("fingerprint") != fingerprint_) return std::nullopt;
    return from_json(object);
  } catch (const json::exception&) {  // whose sentence would print the damaged bytes
    log_warning("ignoring the damaged record {}; converting its shard again",
                record_path(file_name).string());
    return std::nullopt;
  }
}

std::optional<ShardRecord> Journal::find_finished(const std::string& file_name, const ShardHeader* source,
                                                  ResumeCheck check) const {
  std::optional<ShardRecord> record = load(file_name);
  if (!record) return std::nullopt;
  if (source != nullptr &&
      (source->file_bytes != record->source_bytes || source->modified_ns != record->source_modified_ns)) {
    log_warning("{} changed since it was converted; converting it again", file_name);
    return std::nullopt;
  }
  const fs::path final_path = output_ / file_name;
  const bool in_place = fs::exists(final_path);
  const fs::path path = in_place ? final_path : partial_path(file_name);
  if (!fs::exists(path)) return std::nullopt;
  const bool intact = check == ResumeCheck::kFull ? sha256_of_file(path, cancel_) == record->sha256
                                                  : content_probe(path) == record->probe;
  if (!intact) {
    log_warning("{} is not what was written; converting it again", path.string());
    return std::nullopt;
  }
  if (!in_place) rename_durably(path, final_path);
  return record;
}

bool Journal::is_in_place(const std::string& file_name) const {
  const std::optional<ShardRecord> record = load(file_name);
  std::error_code missing;
  return record && fs::file_size(output_ / file_name, missing) == record->output_bytes && !missing;
}

void Journal::begin(const std::string& file_name) const {
  if (fs::remove(record_path(file_name))) sync_directory(folder_);
}

void Journal::commit(const ShardRecord& record) const {
  write_file_atomically(record_path(record.file_name), to_json(record, fingerprint_).dump() + "\n");
  rename_durably(partial_path(record.file_name), output_ / record.file_name);
}

void Journal::remove() {
  // The job file goes first: without it nothing here is taken for a journal any more.
  fs::remove(folder_ / kJobFile);
  sync_directory(folder_);
  lock_ = LockFile();
  fs::remove_all(folder_);
  sync_directory(output_);
}

}  // namespace perigee
