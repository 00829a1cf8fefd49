// The facts of a conversion, summed from the journal's shard records. Deterministic: the same source and
// options give the same report, whatever was interrupted, resumed or split over machines; times are printed,
// never stored.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convert/journal.h"

namespace perigee {

struct ConversionReport {
  // What was asked.
  std::string fingerprint;
  std::string source_name;    // last component of the source folder
  std::string source_format;  // expert_format_name()
  std::string layout;
  std::string activations;
  std::string method;
  bool partial = false;  // only some shards or layers were asked for

  // What was found and made.
  std::uint64_t shards = 0;
  std::uint64_t tensors = 0;
  std::uint64_t source_file_bytes = 0;
  std::uint64_t output_file_bytes = 0;
  std::uint64_t total_size = 0;  // tensor bytes, as in the index
  std::uint64_t modules = 0;
  std::map<std::string, std::uint64_t> modules_by_action;
  std::uint64_t groups = 0;       // of 32
  std::uint64_t groups_kept = 0;  // groups whose values cannot have changed
  std::uint64_t zero_groups = 0;
  std::uint64_t over_span_groups = 0;
  std::uint64_t marlin_unsafe_blocks = 0;
  std::uint64_t negative_zero_nibbles = 0;
  std::uint64_t byte_00_groups = 0;
  std::uint64_t byte_ff_groups = 0;
  std::array<std::uint64_t, kSpanBins> span_histogram{};
  std::optional<int> max_exponent_low;  // smallest and largest K of a module with values
  std::optional<int> max_exponent_high;
  std::uint64_t fp8_tensors = 0;
  ErrorSums expert_error;    // of rounded modules, and of FP8 tensors, as the verifier measured them; no
                             // elements where
  ErrorSums fp8_error;       // nothing was rounded or the verification was not full
  std::string verification;  // "full", "sample" or "none": the weakest of any shard
  std::vector<ShardRecord> records;  // in index order, without their modules

  bool lossless() const;
};

// Folds in one finished shard; its module details are summed and dropped.
void add_record(ConversionReport& report, ShardRecord record);

// conversion_report.json: indent 2, sorted keys, trailing newline.
std::string report_to_json(const ConversionReport& report);

// Reads back what a finished checkpoint says of itself; of its shards only names and sizes. Nothing if this
// is no such report.
std::optional<ConversionReport> report_from_json(const std::string& text);

// conversion_modules.jsonl, one line per module of these records in the order given.
std::string modules_to_json_lines(const ShardRecord& record);

}  // namespace perigee
