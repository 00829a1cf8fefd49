// Whole conversions measured beside the disk's own limit: cp, and cp followed by cmp, of the same files from
// a cold cache, in turn with the conversion, so that a disk whose speed drifts treats both alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/child_process.h"

namespace perigee {

struct ConvertBenchOptions {
  std::filesystem::path program;  // perigee itself
  std::filesystem::path source;   // a checkpoint
  std::filesystem::path work;     // existing folder on the disk to measure; needs twice the source's space
  std::vector<std::string> convert_options;
  unsigned rounds = 3;
  // Called before each step with what is about to run.
  std::function<void(const std::string&)> announce;
};

struct MeasuredStep {
  std::string name;
  std::vector<ChildCost> runs;  // one per round
  double median_seconds() const;
};

struct ConvertBenchResult {
  std::uint64_t source_bytes = 0;  // all files of the source folder
  MeasuredStep copy;               // cp, synced
  MeasuredStep convert;            // convert --verify none
  MeasuredStep copy_compare;       // cp, synced, then cmp from a cold cache
  MeasuredStep convert_verify;     // convert --verify full
};

// Rates are source bytes per second. Everything written is removed again.
ConvertBenchResult bench_conversion(const ConvertBenchOptions& options);

}  // namespace perigee
