#include "pack/pack_journal.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "convert/journal.h"
#include "pack/pack_json.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFolderName = ".perigee";
constexpr std::uint64_t kMaxRecordBytes = 64ull << 20;

void refuse_foreign_contents(const fs::path& output) {
  if (!fs::exists(output)) return;
  if (!fs::is_directory(output)) fail(ErrorCode::kExists, "{} is not a folder", output.string());
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    if (entry.path().filename() == kFolderName) continue;
    fail(ErrorCode::kExists, "{} already holds {}; choose an empty folder, or remove it yourself",
         output.string(), entry.path().filename().string());
  }
}

}  // namespace

fs::path partial_path(const fs::path& path) {
  return path.string() + ".partial";
}

FileMark mark_of_partial(const fs::path& path) {
  return {path, fs::file_size(partial_path(path)), content_probe(partial_path(path))};
}

fs::path PackJournal::job_path() const {
  return folder_ / (name_ + ".json");
}

PackJournal::PackJournal(const fs::path& folder, const std::string& fingerprint, Job job)
    : output_(folder),
      folder_(folder / kFolderName),
      fingerprint_(fingerprint),
      name_(job == Job::kPack ? "pack" : "unpack") {
  const bool known = fs::exists(job_path());
  if (!known) refuse_foreign_contents(output_);
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    fail(ErrorCode::kIo, "cannot create the folder {}: {}", folder_.string(), error.message());
  }
  std::optional<LockFile> lock = LockFile::try_take(folder_ / (name_ + ".lock"), name_);
  if (!lock) {
    fail(ErrorCode::kExists, "another perigee {} is at work in {}; wait for it or stop it", name_,
         output_.string());
  }
  lock_ = *std::move(lock);
  if (!known) return;
  const json begun = json::parse(read_small_file(job_path(), kMaxRecordBytes), nullptr, false);
  if (!begun.is_object() || !begun.contains("fingerprint") || begun["fingerprint"] != fingerprint_) {
    fail(ErrorCode::kExists,
         "{} holds an unfinished {} with other options or another source; finish it with those, or remove "
         "the folder and start anew",
         output_.string(), name_);
  }
  try {
    weights_ = begun.at("weights").get<std::vector<double>>();
  } catch (const json::exception&) {
    fail(ErrorCode::kCorrupt, "{} is damaged; remove the folder and start anew", job_path().string());
  }
}

void PackJournal::start(const std::vector<double>& weights) {
  const json job = {{"fingerprint", fingerprint_}, {"weights", weights}};
  write_file_atomically(job_path(), job.dump() + "\n");
  weights_ = weights;
}

fs::path PackJournal::record_path(const std::string& item) const {
  return folder_ / (item + ".json");
}

std::optional<ItemRecord> PackJournal::load(const fs::path& folder, const std::string& item) {
  const fs::path path = folder / kFolderName / (item + ".json");
  if (!fs::exists(path)) return std::nullopt;
  try {
    return item_from_json(json::parse(read_small_file(path, kMaxRecordBytes)));
  } catch (const json::exception&) {  // whose sentence would print the damaged bytes
    log_warning("ignoring the damaged record {}; its part is done again", path.string());
    return std::nullopt;
  }
}

void PackJournal::forget(const std::string& item) const {
  if (fs::remove(record_path(item))) sync_directory(folder_);
}

void PackJournal::commit(const std::string& item, const ItemRecord& record) const {
  write_file_atomically(record_path(item), item_to_json(record).dump() + "\n");
  for (const FileMark& file : record.files) rename_durably(partial_path(file.path), file.path);
}

bool PackJournal::finish_renames(const ItemRecord& record) {
  for (const FileMark& file : record.files) {
    const bool in_place = fs::exists(file.path);
    const fs::path path = in_place ? file.path : partial_path(file.path);
    std::error_code missing;
    if (fs::file_size(path, missing) != file.bytes || missing) return false;
    if (!in_place) rename_durably(path, file.path);
  }
  return true;
}

bool PackJournal::files_are_intact(const ItemRecord& record) {
  return std::ranges::all_of(record.files,
                             [](const FileMark& file) { return content_probe(file.path) == file.probe; });
}

void PackJournal::discard(const fs::path& folder) {
  fs::remove_all(folder / kFolderName);
}

void PackJournal::remove() {
  // The job file goes first: without it nothing here is taken for a journal any more.
  fs::remove(job_path());
  sync_directory(folder_);
  lock_ = LockFile();
  fs::remove_all(folder_);
  sync_directory(output_);
}

}  // namespace perigee
