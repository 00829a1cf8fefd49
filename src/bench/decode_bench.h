// How long one token takes in a model of K3's real widths, part by part, beside the time that the same
// threads need to read the same bytes. The model's own forward pass runs over random weights in memory
// (random_model.h); the time of all of K3 is the sum of the parts, each as often as K3 has it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "compute/matrix.h"

namespace perigee {

struct DecodeBenchOptions {
  K3Config measured;  // the layers that run, e.g. first_layers() of `whole`
  K3Config whole;     // the model that is extrapolated to
  WeightFormat experts = WeightFormat::kMxfp4;
  std::uint64_t memory_bytes = 0;
  std::size_t context = 1000;  // tokens before the one that is measured
  std::string backend;         // empty: the fastest
  unsigned threads = 0;        // 0: all cores
  unsigned rounds = 5;
  // Called before each step with what is about to run.
  std::function<void(const std::string&)> announce;
};

struct DecodePart {
  std::string name;
  std::size_t count = 0;     // in the whole model
  std::size_t measured = 0;  // in the model that ran
  double seconds = 0;        // of one, median over rounds and layers; 0 if none was measured
  std::uint64_t bytes = 0;   // of one: weights read, states read and written
};

struct DecodeBenchResult {
  std::string backend;
  unsigned threads = 0;
  double bytes_per_second = 0;  // of reading, median of rounds that alternate with tokens
  std::vector<DecodePart> parts;

  double token_seconds() const;       // of the whole model
  std::uint64_t token_bytes() const;  // of the whole model
};

DecodeBenchResult bench_decode(const DecodeBenchOptions& options);

}  // namespace perigee
