// What is in a checkpoint folder, for people: tensor classes, layers, experts, how the experts are stored,
// and everything that is odd about it. Unlike read_shard_header() it never stops at a fault: a damaged or
// half downloaded checkpoint is described as far as it can be read. Reads headers, and values only of A_log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/tensor_name.h"

namespace perigee {

enum class FindingKind {
  kConfig,        // config.json is missing or contradicts itself
  kManifest,      // the quantisation manifest says something else than the tensors
  kMissingShard,  // indexed, not there
  kUnreadable,    // there, but its header is not a safetensors header
  kIndex,         // index and shard disagree about a tensor, or total_size is wrong
  kStrayFile,     // a safetensors file that the index does not know
  kSplitPair,     // w1 and w3 of an expert in different shards
  kUnknownName,   // not a name of the released model
  kShape,         // shape or type is not what config.json asks for
  kAbsent,        // config.json asks for it, the index lacks it
  kALog,          // A_log is not one value per head
};
const char* finding_kind_name(FindingKind kind);  // "missing-shard", …

struct Finding {
  FindingKind kind;
  bool harmless = false;  // as released, or a matter of information only
  std::string text;       // one sentence
};

struct ClassSummary {
  ClassTotals total;
  std::map<std::string, ClassTotals> by_dtype;  // key: "BF16"
};

struct CheckpointOverview {
  std::map<TensorClass, ClassSummary> classes;
  Inventory inventory;
  std::uint64_t kda_layers = 0, mla_layers = 0, dense_layers = 0, moe_layers = 0;
  std::uint64_t shards_indexed = 0, shards_present = 0;
  std::uint64_t indexed_tensors = 0;
  std::uint64_t file_bytes = 0;                      // of the shards that are there
  std::optional<std::uint64_t> total_size;           // as the index says
  ExpertFormat expert_format = ExpertFormat::kNone;  // what the tensors are
  std::optional<ExpertFormat> manifest_format;       // what config.json claims; empty if that is unreadable
  bool has_input_scale = false;
  bool has_fp8_attention = false;
  std::vector<Finding> findings;  // in the order of discovery, faults and notes mixed
};

CheckpointOverview survey_checkpoint(const std::filesystem::path& checkpoint);

}  // namespace perigee
