// What a checkpoint does on this machine: how long it loads, how fast it reads a prompt, how fast it answers;
// each beside the machine's own limit, measured in the same run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "compute/ops.h"

namespace perigee {

struct ModelBenchOptions {
  std::filesystem::path checkpoint;
  OpsOptions ops;
  std::size_t prompt_tokens = 256;
  std::size_t tokens = 32;  // generated
  unsigned rounds = 3;
  // Called before each step with what is about to run.
  std::function<void(const std::string&)> announce;
};

// Medians. Limits: reading the checkpoint's shards as plain files; the prompt's multiply-adds in registers;
// reading, from where they lie, the weights that a token needs.
struct ModelBenchResult {
  std::string backend;
  unsigned threads = 0;
  std::uint64_t file_bytes = 0;  // of the shards
  double load_seconds = 0, load_limit_seconds = 0;
  double prompt_macs = 0;
  double prompt_seconds = 0, prompt_limit_seconds = 0;  // until the first token is there
  std::uint64_t token_bytes = 0;
  double token_seconds = 0, token_limit_seconds = 0;  // of one of the tokens after the first
};

// kUsage if the prompt does not fit the model's context.
ModelBenchResult bench_model(const ModelBenchOptions& options);

}  // namespace perigee
