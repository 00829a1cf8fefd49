// How fast the backends multiply matrices that come from memory: weights per second beside what the same
// threads read from the same memory, and multiply-adds beside what they do in registers. The product of one
// token is bound by the first, of many by the second; which one it is decides the limit of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/machine_limits.h"
#include "compute/matrix.h"

namespace perigee {

struct MatrixCase {
  std::string name;
  WeightFormat format = WeightFormat::kBf16;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

// K3's expert projections in MXFP4 and NVFP4 and its largest trunk projections in BF16.
std::vector<MatrixCase> k3_matrix_cases();

struct MatrixBenchOptions {
  std::vector<MatrixCase> cases;
  std::vector<std::string> backends;
  std::vector<unsigned> threads;
  std::vector<std::size_t> batches;  // tokens
  std::uint64_t memory_bytes = 0;    // of weights; much larger than the caches
  unsigned rounds = 5;
  // Called before each table row with what is about to run.
  std::function<void(const std::string&)> announce;
};

// Medians of rounds that alternate with readings of the same memory; by CPU time where one thread works, by
// the wall where more do (work_clock).
struct MatrixRate {
  std::size_t matrix = 0;  // index of the case
  std::string backend;
  unsigned threads = 1;
  std::size_t batch = 1;
  double bytes_per_second = 0;  // of weights
  double macs_per_second = 0;
  double stream_bytes_per_second = 0;
  double limit_bytes_per_second = 0;  // the lower of what memory and instructions allow
  bool bound_by_memory = true;
  double of_limit = 0;  // median of the rounds' own ratios
};

struct MatrixBenchResult {
  std::vector<MatrixRate> rates;
  std::vector<std::pair<unsigned, std::vector<ComputePeak>>> peaks;  // per number of threads
};

// kUsage if a matrix does not fit the memory.
MatrixBenchResult bench_matrices(const MatrixBenchOptions& options);

}  // namespace perigee
