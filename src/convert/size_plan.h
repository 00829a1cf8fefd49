// What a conversion would write, to the byte, from config.json and the index alone: no shard has to be there.
// The tensors come from the schema, the rule for outputs from output_tensors(), header and index sizes from
// the serialisers that the converter uses, so that a plan and a run cannot disagree. Deliberately knows
// nothing of disks: free space and speed are disk_rate.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/index.h"
#include "convert/target_layout.h"

namespace perigee {

struct FilePlan {
  std::string name;
  std::uint64_t tensors = 0;
  std::uint64_t header_bytes = 0;  // 8 + N
  std::uint64_t data_bytes = 0;
  std::uint64_t file_bytes() const { return header_bytes + data_bytes; }
};

// One checkpoint, existing or to be written. Only safetensors files and the index are counted; the copied
// small files (tokenizer, code, licence) are a few megabytes.
struct LayoutPlan {
  Layout layout = Layout::kMxfp4;
  Activations activations = Activations::kNone;
  std::uint64_t tensors = 0;       // also the number of index entries
  std::uint64_t tensor_bytes = 0;  // metadata.total_size of the index
  std::uint64_t header_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::vector<FilePlan> files;
  std::string impossible;  // why this target cannot be made; then all numbers are 0

  std::uint64_t total_bytes() const { return tensor_bytes + header_bytes + index_bytes; }
  std::uint64_t largest_file() const;
};

struct SizePlan {
  LayoutPlan source;                // what the index's own names say it is; MXFP4 without an index
  std::vector<LayoutPlan> targets;  // every layout it could become
  std::uint64_t experts = 0;
  std::uint64_t expert_modules = 0;  // w1, w2, w3 counted one by one
  std::uint64_t mxfp4_blocks = 0;    // groups of 32 weights
  // What running needs: bytes of routed experts that one token touches, and of everything else in the text
  // model.
  std::uint64_t expert_bytes = 0;
  std::uint64_t expert_bytes_per_token = 0;
  std::uint64_t trunk_bytes = 0;
  // Sentences about index and config that contradict each other; the plan is exact only if there are none.
  std::vector<std::string> disagreements;
};

struct PlanTarget {
  Layout layout;
  Activations activations;
};
// Everything that `perigee convert` can write.
std::span<const PlanTarget> all_targets();

// `index` may be null: then the released placement is assumed. Tensors that the index lacks are left out, so
// a partial checkpoint is planned as what it is.
// A target that the source already is, is left out.
SizePlan plan_sizes(const K3Config& config, const CheckpointIndex* index,
                    std::span<const PlanTarget> targets = all_targets());

}  // namespace perigee
