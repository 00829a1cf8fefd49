// Asks of a checkpoint's metadata: would vLLM and SGLang load every module as what it is? Plays both engines'
// name matching for every module under every spelling they may use at run time, fused modules included. Used
// before a conversion is published, and on other people's checkpoints. It judges names only; what the tensors
// really hold is proved elsewhere.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "engines/rules.h"

namespace perigee {

enum class StoredAs { kFloat, kFp4, kFp8 };

struct StoredModule {
  std::string name;  // released name without ".weight", e.g. "…block_sparse_moe.experts.5.w1",
                     // "language_model.lm_head"
  StoredAs stored = StoredAs::kFloat;
};

// The modules with a matrix that these tensors make up, for check_exclusions(): packed 4-bit, FP8, or a float
// matrix. Convolutions, norms and embeddings are left out, since no engine quantises them. Call it per shard
// and join.
std::vector<StoredModule> stored_modules(std::span<const TensorInfo> tensors);

enum class MatcherFault {
  kExpertExcluded,   // FP4 experts would be built as float: the model does not fit, or reads packed bytes as
                     // values
  kLinearQuantised,  // a float matrix would be read as packed FP4 or FP8
  kWrongFormat,      // FP8 taken for FP4 or the reverse, or a quantised attention projection taken for float
  kFusedDisagreement,  // the parts of a fused module are not treated alike
};
inline constexpr int kMatcherFaults = 4;

struct MatcherFinding {
  MatcherFault fault;
  Engine engine;
  std::string runtime_name;
  std::string text;  // one sentence
};

struct MatcherReport {
  std::uint64_t names_checked = 0;
  std::uint64_t counts[kMatcherFaults] = {};  // by MatcherFault
  std::vector<MatcherFinding> findings;       // the first few of each fault and engine
  std::vector<std::string> manifest_problems;
  std::vector<std::string> unchecked;  // entries that could not be judged

  std::uint64_t count(MatcherFault fault) const { return counts[static_cast<int>(fault)]; }
  // No fault, no problem with the manifest. Unjudged entries alone do not make a report unclean.
  bool clean() const;
  // The first fault, or problem, as a sentence; empty if clean.
  std::string first_problem() const;
};

// `config` is the parsed config.json (or hf_quant_config.json). Expert modules are joined to banks.
MatcherReport check_exclusions(const nlohmann::json& config, std::span<const StoredModule> modules);

}  // namespace perigee
