// One layer of a real checkpoint, whole: attention, router, experts, norms, residuals, from one shard of 17
// GB. Runs it from the released MXFP4 and from NVFP4 in both layouts, converted on disk or in memory, on
// every backend, for a prompt and for one token more; all outputs must be the same bits. Says nothing about
// whether they are the right ones: that is logits_parity.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "compute/ops.h"
#include "model/load_layer.h"

namespace perigee {

struct BlockParityOptions {
  std::filesystem::path shard;                 // a shard with config.json beside it, or a checkpoint folder
  std::vector<std::filesystem::path> against;  // conversions of it: shards or folders
  std::optional<std::uint64_t> layer;          // unset: the first with routed experts
  std::size_t tokens = 16;                     // of the prompt; one more is decoded
  Precision precision = Precision::kBf16;
  std::vector<std::string> backends;  // empty: all of this machine, "reference" only if it is quick
  bool reference = false;             // "reference" too, whatever it takes
  unsigned threads = 0;               // 0: all cores
  std::uint64_t memory_limit_bytes = 0;
  std::function<void(const std::string& what)> progress;  // what begins now
};

struct BlockRun {
  std::string form;  // "mxfp4", "nvfp4-modelopt, cast in memory", …
  std::string backend;
  std::uint64_t attention_hash = 0;  // XXH3-64 of the float32 rows of prompt and decoded token, each
  std::uint64_t experts_hash = 0;    // output of the expert block, with the shared experts
  std::uint64_t layer_hash = 0;      // the residual stream behind the layer
  double prompt_seconds = 0;
  double decode_seconds = 0;
  bool equal = false;  // all three to those of the first run
};

// Something that a conversion has otherwise than the shard.
struct BlockDifference {
  std::string form;
  std::string what;  // names the tensor or the expert, row and column
};

struct BlockParity {
  std::uint64_t layer = 0;
  bool mla = false;
  std::uint64_t experts = 0;              // of the layer
  std::vector<std::uint32_t> chosen;      // by the router, for any token
  std::uint64_t trunk_bytes = 0;          // of the layer without routed experts
  std::uint64_t expert_bytes = 0;         // of one expert
  std::vector<Fingerprint> fingerprints;  // the trunk's, and those of the first, middle and last expert
  std::vector<BlockRun> runs;
  std::vector<BlockDifference> differences;
  double seconds = 0;
  std::uint64_t peak_memory_bytes = 0;  // of this process so far

  bool equal() const;  // at least two runs, all equal, and no differences
};

// kUsage for no token, kNotFound, kCorrupt, kUnsupported, kNoSpace as LoadedLayer::load(), kLossy for an
// expert that has no lossless cast, kInterrupted.
BlockParity check_block_parity(const BlockParityOptions& options, const CancelToken& cancel);

}  // namespace perigee
