// Makes a store, the running form of a checkpoint (docs/formats.md): one aligned record per expert, the trunk
// with planes of a chosen format, an index. Item by item: write, sync, read back from the disk, journal,
// rename; the experts' index last, so that nothing looks like a store before it is one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convert/journal.h"
#include "pack/record_plan.h"
#include "pack/store_report.h"
#include "pack/workshop.h"

namespace perigee {

struct PackOptions {
  std::filesystem::path source;
  std::filesystem::path store;

  // What the bytes are and where.
  PlaneFormats planes{};
  std::vector<Stripe> stripes;  // folders for the records; empty: the store itself
  bool link = false;            // leave the experts in the checkpoint's shards

  // How the work is done; no influence on the bytes.
  bool delete_source = false;  // each shard once all that was in it is verified and synced
  ResumeCheck resume_check = ResumeCheck::kProbe;
  WorkOptions work;
};

struct PackOutcome {
  StoreReport report;
  bool already_complete = false;
  std::uint64_t items = 0;  // trunk files and layers
  std::uint64_t items_resumed = 0;
  std::uint64_t source_bytes_read = 0;  // this run
  std::uint64_t store_bytes_written = 0;
  double seconds = 0;
};

// Throws Error; on kInterrupted and on I/O errors the same call resumes later.
PackOutcome pack_checkpoint(const PackOptions& options);

struct PackEstimate {
  struct Folder {
    std::filesystem::path path;
    std::uint64_t needed = 0;
    std::uint64_t available = 0;  // of the disk that it is on, perhaps shared with others of the list
  };
  std::uint64_t experts = 0;
  std::uint64_t record_bytes = 0;  // of one; the largest
  std::uint64_t expert_bytes = 0;  // of all records
  std::uint64_t trunk_bytes = 0;
  std::uint64_t source_bytes = 0;
  PlaneTable planes;
  std::vector<Folder> folders;
};

// --dry-run: reads headers only. Stripes without a weight count as equally fast.
PackEstimate estimate_pack(const PackOptions& options);

}  // namespace perigee
