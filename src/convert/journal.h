// The memory of a conversion between runs, in OUT/.perigee/: what job this is, and one record per finished
// shard. A shard is done when its record and its bytes agree, never because a file exists. The folder
// disappears when the checkpoint is complete. Several ranks may share one journal; each holds a lock of its
// own.
//
// Order of events for a shard: partial file synced -> (verified) -> record written durably -> renamed into
// place. So a shard under its final name always has a record, and a record without the file can be completed
// or redone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/lock_file.h"
#include "checkpoint/checkpoint.h"
#include "convert/module_record.h"
#include "verify/verify.h"

namespace perigee {

struct ShardRecord {
  std::string file_name;
  std::uint64_t source_bytes = 0;  // size of the source file
  std::int64_t source_modified_ns = 0;
  std::uint64_t output_bytes = 0;  // size of the output file
  std::uint64_t output_tensors = 0;
  std::uint64_t output_data_bytes = 0;  // sum of the tensors
  std::uint64_t fp8_tensors = 0;        // attention tensors rounded to FP8
  std::string sha256;                   // of the output file
  std::string probe;                    // content_probe() of the output file
  std::string verification;             // "full", "sample", "none"
  ErrorSums expert_error;               // of modules that were rounded, measured by a full verification
  ErrorSums fp8_error;                  // of FP8 tensors
  std::vector<ModuleRecord> modules;
};

// A cheap fingerprint of a file: size, its first megabyte and 64 blocks spread over it. Catches truncation,
// zeroed ranges and other files under the same name; it is not a proof, the SHA-256 is.
std::string content_probe(const std::filesystem::path& path);

enum class ResumeCheck {
  kProbe,  // size, header and content_probe()
  kFull,   // SHA-256 of the whole file
};

class Journal {
 public:
  // Opens OUT/.perigee for a job with this fingerprint, or starts it. Refuses (kExists) an output folder that
  // has other contents or another job's journal, a converter of the same rank at work in it, or one that
  // splits the work over another number of ranks. `cancel` may be null.
  Journal(const std::filesystem::path& output, const std::string& fingerprint, unsigned rank,
          unsigned world_size, const CancelToken* cancel);

  // True if an earlier run of the same job left records here.
  bool resuming() const { return resuming_; }

  // Where the bytes of a shard grow until they are complete.
  std::filesystem::path partial_path(const std::string& file_name) const;

  // The record of a shard whose output is in place and still what was written, else nothing. Finishes an
  // interrupted rename. `source` is null when the source is known to be gone (deleted after verification).
  std::optional<ShardRecord> find_finished(const std::string& file_name, const ShardHeader* source,
                                           ResumeCheck check) const;

  // True if another process of the same job has this shard recorded and in place: cheap, and leaves
  // everything alone.
  bool is_in_place(const std::string& file_name) const;

  // Call before writing a shard: forgets its old record, so that a half-written file can never be taken for
  // it.
  void begin(const std::string& file_name) const;

  // Makes the partial file of this shard final: record, then rename.
  void commit(const ShardRecord& record) const;

  // Ends the job: removes the journal folder.
  void remove();

  // True if OUT holds a journal at all.
  static bool exists(const std::filesystem::path& output);
  // kExists if a converter of any rank is at work in OUT.
  static void refuse_if_busy(const std::filesystem::path& output);
  // Removes a journal and the partial files in it, whoever made it (for --overwrite).
  static void discard(const std::filesystem::path& output);

 private:
  std::filesystem::path record_path(const std::string& file_name) const;
  std::optional<ShardRecord> load(const std::string& file_name) const;
  void refuse_foreign_contents() const;
  void check_job() const;
  void open_job();

  const std::filesystem::path output_;
  const std::filesystem::path folder_;
  const std::string fingerprint_;
  const CancelToken* const cancel_;
  bool resuming_ = false;
  LockFile lock_;
};

}  // namespace perigee
