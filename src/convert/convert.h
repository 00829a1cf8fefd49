// Converts a whole checkpoint, one shard at a time: plan, stream, verify from disk, journal, rename; then the
// metadata, and the index last, so that no reader ever finds a checkpoint that looks complete and is not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/async_io.h"
#include "base/cancel.h"
#include "base/progress.h"
#include "convert/journal.h"
#include "convert/report.h"
#include "convert/target_layout.h"
#include "convert/unit_compute.h"

namespace perigee {

enum class VerifyMode { kFull, kSample, kNone };

struct ConvertOptions {
  std::filesystem::path source;
  std::filesystem::path output;

  // What the bytes are.
  Layout layout = Layout::kModelOpt;
  Activations activations = Activations::kPlaceholder;
  ScalePolicy policy;  // requant_method is set from the layout
  InexactScale inexact_scale = InexactScale::kFail;
  std::vector<std::uint64_t> shards;  // 1-based numbers of source shards; empty = all
  std::vector<std::uint64_t> layers;  // 0-based; empty = all

  // How the work is done; no influence on the bytes.
  unsigned jobs = 0;  // worker threads, 0 = number of CPUs
  unsigned io_depth = 4;
  std::uint64_t memory_bytes = 320ull << 20;
  IoBackend io = IoBackend::kAuto;
  VerifyMode verify = VerifyMode::kFull;
  ResumeCheck resume_check = ResumeCheck::kProbe;
  bool resume_only = false;  // fail if there is no interrupted run to resume
  bool overwrite = false;
  bool delete_source = false;          // each shard after its own full verification
  bool follow = false;                 // wait for shards that a download has yet to complete
  double wait_timeout_seconds = 3600;  // --follow and rank 0: give up after this long without progress
  unsigned rank = 0;
  unsigned world_size = 1;
  ProgressStyle progress = ProgressStyle::kAuto;
  const CancelToken* cancel = nullptr;
};

struct ConvertOutcome {
  ConversionReport report;
  bool finalised = false;  // false on ranks other than 0
  bool already_complete = false;
  std::uint64_t shards_converted = 0;   // this run
  std::uint64_t shards_resumed = 0;     // found finished
  std::uint64_t source_bytes_read = 0;  // this run
  std::uint64_t output_bytes_written = 0;
  double convert_seconds = 0;
  double verify_seconds = 0;
};

// The report with the facts of this run (times, rates, what was resumed), as JSON.
std::string outcome_to_json(const ConvertOutcome& outcome);

// Throws Error; on kInterrupted and on I/O errors the same call resumes later.
ConvertOutcome convert_checkpoint(const ConvertOptions& options);

struct ShardEstimate {
  std::string file_name;
  std::uint64_t source_bytes = 0;
  std::uint64_t output_bytes = 0;
  std::uint64_t output_tensors = 0;
};

// --dry-run: reads headers only. Finds the errors that headers can show.
std::vector<ShardEstimate> estimate_conversion(const ConvertOptions& options);

}  // namespace perigee
