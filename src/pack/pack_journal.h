// The memory of an unfinished pack or unpack, in .perigee/ of the folder that it writes: what job it is, and
// one record for each finished item, which is the trunk of a source shard or the records of a layer, or a
// shard that is given back. An item is done when its record and its bytes agree, never because a file exists.
// The folder disappears when the work is complete.
//
// Order of events for an item: partial files synced -> read back -> record written durably -> renamed into
// place, as in a conversion (convert/journal.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/lock_file.h"
#include "pack/trunk_writer.h"

namespace perigee {

struct SourceMark {
  std::string shard;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
};

struct FileMark {
  std::filesystem::path path;  // final
  std::uint64_t bytes = 0;
  std::string probe;  // content_probe() of convert/journal.h
};

struct ItemRecord {
  std::vector<SourceMark> sources;
  std::vector<FileMark> files;
  std::vector<std::uint64_t> checksums;  // of a layer's records by expert; of a trunk file's bytes
  PlaneTable planes;                     // of a trunk file
};

// "….partial" beside the final path.
std::filesystem::path partial_path(const std::filesystem::path& path);
// Of a file that is still there.
FileMark mark_of_partial(const std::filesystem::path& path);

class PackJournal {
 public:
  enum class Job { kPack, kUnpack };

  // Opens the journal of a job with this fingerprint in `folder`, or starts one, with `weights` for its
  // stripe. kExists if the folder has other contents or another job's journal, or if somebody is at work in
  // it.
  PackJournal(const std::filesystem::path& folder, const std::string& fingerprint, Job job);

  bool resuming() const { return weights_.has_value(); }
  const std::vector<double>& weights() const { return *weights_; }  // of the stripe
  void start(const std::vector<double>& weights);                   // once, unless resuming()

  // Nothing if there is no record or it is damaged.
  static std::optional<ItemRecord> load(const std::filesystem::path& folder, const std::string& item);
  void forget(const std::string& item) const;
  // Makes the item's partial files final: record, then renames.
  void commit(const std::string& item, const ItemRecord& record) const;
  // Finishes renames that a dead run did not get to. False if a file is neither in place nor partial, or has
  // another size than its mark.
  static bool finish_renames(const ItemRecord& record);
  // Whether the files look like what was written: their probes.
  static bool files_are_intact(const ItemRecord& record);

  void remove();  // the job is done

  // Whoever made it; for a folder that is complete.
  static void discard(const std::filesystem::path& folder);

 private:
  std::filesystem::path job_path() const;
  std::filesystem::path record_path(const std::string& item) const;

  const std::filesystem::path output_;
  const std::filesystem::path folder_;  // of the journal
  const std::string fingerprint_;
  const std::string name_;  // of the job: "pack"
  std::optional<std::vector<double>> weights_;
  LockFile lock_;
};

}  // namespace perigee
