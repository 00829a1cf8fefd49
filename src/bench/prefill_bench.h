// How fast prompts go through layers of K3's widths: multiply-adds per second beside what the instructions of
// the backend do in registers, and beside oneDNN's dense products of the same shapes where the build has it.
// The model's own forward pass runs over random weights in memory (random_model.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/machine_limits.h"
#include "checkpoint/config.h"
#include "compute/matrix.h"

namespace perigee {

struct PrefillBenchOptions {
  K3Config sizes;  // layers are chosen here: one KDA and one MLA layer, both with experts
  WeightFormat experts = WeightFormat::kMxfp4;
  std::uint64_t memory_bytes = 0;
  std::vector<std::size_t> tokens;
  std::size_t context = 0;  // tokens before each prompt
  std::string backend;      // empty: the fastest
  unsigned threads = 0;     // 0: all cores
  unsigned rounds = 3;
  // Called before each step with what is about to run.
  std::function<void(const std::string&)> announce;
};

struct PrefillRate {
  std::string name;
  std::size_t tokens = 0;
  double macs = 0;
  double seconds = 0;  // median
  double macs_per_second() const { return macs / seconds; }
};

// One matrix of the layer, as many tokens as reach it.
struct ProductRate {
  std::string name;
  WeightFormat format = WeightFormat::kBf16;
  std::size_t rows = 0, columns = 0, tokens = 0;
  double macs_per_second = 0;
  std::optional<double> dense_f32, dense_bf16;  // oneDNN
};

struct PrefillBenchResult {
  std::string backend;
  unsigned threads = 0;
  double peak = 0;                 // of the backend's instructions, median of rounds between the others
  std::vector<ComputePeak> peaks;  // of all instructions
  std::vector<PrefillRate> parts;
  std::vector<ProductRate> products;
};

PrefillBenchResult bench_prefill(const PrefillBenchOptions& options);

}  // namespace perigee
