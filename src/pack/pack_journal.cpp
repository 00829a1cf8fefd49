#include "pack/pack_journal.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "pack/pack_json.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFolderName = ".perigee";
constexpr const char* kJobFile = "pack.json";
constexpr std::uint64_t kMaxRecordBytes = 64ull << 20;

void refuse_foreign_contents(const fs::path& store) {
  if (!fs::exists(store)) return;
  if (!fs::is_directory(store)) fail(ErrorCode::kExists, "{} is not a folder", store.string());
  for (const fs::directory_entry& entry : fs::directory_iterator(store)) {
    if (entry.path().filename() == kFolderName) continue;
    fail(ErrorCode::kExists, "{} already holds {}; choose an empty folder, or remove it yourself",
         store.string(), entry.path().filename().string());
  }
}

}  // namespace

fs::path partial_path(const fs::path& path) {
  return path.string() + ".partial";
}

bool PackJournal::exists(const fs::path& store) {
  return fs::exists(store / kFolderName / kJobFile);
}

PackJournal::PackJournal(const fs::path& store, const std::string& fingerprint)
    : store_(store), folder_(store / kFolderName), fingerprint_(fingerprint) {
  const bool known = exists(store);
  if (!known) refuse_foreign_contents(store);
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    fail(ErrorCode::kIo, "cannot create the folder {}: {}", folder_.string(), error.message());
  }
  std::optional<LockFile> lock = LockFile::try_take(folder_ / "pack.lock", "pack");
  if (!lock) {
    fail(ErrorCode::kExists, "another perigee pack is at work in {}; wait for it or stop it", store.string());
  }
  lock_ = *std::move(lock);
  if (!known) return;
  const json job = json::parse(read_small_file(folder_ / kJobFile, kMaxRecordBytes), nullptr, false);
  if (!job.is_object() || !job.contains("fingerprint") || job["fingerprint"] != fingerprint_) {
    fail(ErrorCode::kExists,
         "{} holds an unfinished pack with other options or another source; finish it with those, or remove "
         "the folder and start anew",
         store.string());
  }
  try {
    weights_ = job.at("weights").get<std::vector<double>>();
  } catch (const json::exception&) {
    fail(ErrorCode::kCorrupt, "{} is damaged; remove the store and start anew",
         (folder_ / kJobFile).string());
  }
}

void PackJournal::start(const std::vector<double>& weights) {
  const json job = {{"fingerprint", fingerprint_}, {"weights", weights}};
  write_file_atomically(folder_ / kJobFile, job.dump() + "\n");
  weights_ = weights;
}

fs::path PackJournal::record_path(const std::string& item) const {
  return folder_ / (item + ".json");
}

std::optional<ItemRecord> PackJournal::load(const fs::path& store, const std::string& item) {
  const fs::path path = store / kFolderName / (item + ".json");
  if (!fs::exists(path)) return std::nullopt;
  try {
    return item_from_json(json::parse(read_small_file(path, kMaxRecordBytes)));
  } catch (const json::exception&) {  // whose sentence would print the damaged bytes
    log_warning("ignoring the damaged record {}; packing its part again", path.string());
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

void PackJournal::discard(const fs::path& store) {
  fs::remove_all(store / kFolderName);
}

void PackJournal::remove() {
  // The job file goes first: without it nothing here is taken for a journal any more.
  fs::remove(folder_ / kJobFile);
  sync_directory(folder_);
  lock_ = LockFile();
  fs::remove_all(folder_);
  sync_directory(store_);
}

}  // namespace perigee
