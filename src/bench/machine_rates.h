// The rates of a machine that decide how fast a model runs on it: reading memory, multiplying, reading
// records from a drive. Measured in some ten seconds, and kept in a file, so that planning (plan/run_plan.h)
// need not measure again. Other work on the machine makes them too low; nothing makes them too high.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "bench/machine_limits.h"
#include "bench/record_reads.h"
#include "compute/matrix.h"

namespace perigee {

// The ops' own products with matrices of K3's shapes that come from memory.
struct ProductRates {
  double one_token_bytes_per_second = 0;  // of weights, in a product with one token
  double prompt_macs_per_second = 0;      // in a product with kPromptTokens
};
inline constexpr std::size_t kPromptTokens = 64;

struct MachineRates {
  std::string backend;
  unsigned threads = 1;
  double memory_bytes_per_second = 0;
  std::vector<ComputePeak> peaks;  // slowest first
  ProductRates bf16, mxfp4;
  DriveRates drive;
};

struct MachineRatesOptions {
  std::filesystem::path folder;                // on the drive to measure
  std::uint64_t record_bytes = 17'547'264;     // of one expert of K3
  std::uint64_t memory_bytes = 1'000'000'000;  // to read; far more than the caches
  std::size_t rows = 3072, columns = 3584;     // of the matrices: K3's experts
  double drive_seconds = 4;
  std::string backend;   // empty: the fastest
  unsigned threads = 0;  // 0: all cores
  std::function<void(const std::string&)> announce;
};

MachineRates measure_machine(const MachineRatesOptions& options, const CancelToken& cancel);

// With weights of this format from this much memory: median of some rounds.
ProductRates measure_products(WeightFormat format, const MachineRatesOptions& options);

// JSON. parse_machine_rates(): kCorrupt naming `origin` for what write_machine_rates() does not write.
std::string write_machine_rates(const MachineRates& rates);
MachineRates parse_machine_rates(std::string_view text, const std::string& origin);

}  // namespace perigee
