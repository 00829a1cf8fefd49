// What streaming delivers beside what arithmetic foretells (experts/step_model.h) and beside what the drive
// gives in the same run: a trace of routing goes through StreamedExperts over a real folder, at several sizes
// of memory, with or without multiplying. Only routed experts take part; the trunk would add a constant.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "bench/machine_rates.h"
#include "experts/cache_policy.h"
#include "experts/synthetic_router.h"
#include "experts/trace.h"

namespace perigee {

struct StreamBenchOptions {
  std::filesystem::path folder;  // a checkpoint or a store
  std::filesystem::path trace;   // recorded; empty: routing is drawn
  SyntheticRouting synthetic;    // skew, overlap, recall, tokens, seed; sizes are the folder's
  std::vector<std::size_t> slots;
  CachePolicyKind policy = CachePolicyKind::kPopular;
  bool prefetch = false;     // what the trace says was foreseen
  bool multiply = true;      // with every expert, as a token does
  double warm_up = 0.25;     // share of the trace that fills the memory and is not counted
  double limit_seconds = 1;  // for measuring the drive, before and after every size
  std::string backend;       // empty: the fastest
  unsigned threads = 0;      // 0: all cores
  std::function<void(const std::string&)> announce;
};

struct StreamRow {
  std::size_t slots = 0;
  std::uint64_t slot_bytes = 0;
  double predicted_hit_rate = 0, hit_rate = 0;
  double predicted_step_seconds = 0, step_seconds = 0;  // of one token
  double predicted_step_bytes = 0, step_bytes = 0;      // from the drive, a token
  double disk_bytes_per_second = 0;                     // while any read was under way
  double limit_bytes_per_second = 0;                    // of the same drive, before and after
  double cpu_seconds_per_gigabyte = 0;                  // of the whole process; without multiplying only
  double reads_under_way = 0;                           // mean, whenever an expert was handed out
};

struct StreamBenchResult {
  std::string io;
  std::string backend;
  TraceStatistics routing;
  bool synthetic = true;
  std::uint64_t layers = 0, experts = 0, expert_bytes = 0, tokens = 0;
  double expert_seconds = 0;  // of multiplying with one expert, measured last; 0 without multiplying
  std::vector<StreamRow> rows;
};

// kUsage if the folder has no experts or a trace is of another model.
StreamBenchResult bench_stream(const StreamBenchOptions& options, const CancelToken& cancel);

}  // namespace perigee
