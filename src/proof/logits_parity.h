// Compares the forward pass with values that the released code computed and somebody recorded: logits, every
// inner value, states, greedy tokens, in float32; single modules and a model with steady routing in bf16.
// A recorded value that nothing is compared with is named.
//
// golden.json: prompts {name: ids}; logit_rows {name: positions whose logits were recorded}; greedy
// {"f32.name": {ids, margins}}; image_prompt; steady_bf16_rel_rmse {name: one per recorded position}.
// golden.safetensors: P.NAME.VALUE with P f32 or bf16 and VALUE as in recorded_run.h; P.steady.NAME.logits
// and steady.TENSOR, the selection biases they were computed with; f32.image.{features,logits},
// image.grid_thw.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "compute/ops.h"

namespace perigee {

// Distances of one kind of value: relative L2, or a number of differing ids.
struct LogitsParityRow {
  std::string what;
  std::size_t count = 0;  // of rows or tensors compared
  double worst = 0;
  double median = 0;
  std::string worst_at;
  double bound = 0;         // of the worst
  double median_bound = 0;  // 0: none
  bool ok() const { return worst <= bound && (median_bound == 0 || median <= median_bound); }
};

struct LogitsParity {
  std::vector<LogitsParityRow> rows;
  std::vector<std::string> not_compared;  // recorded values without a meaning of their own
  bool ok() const;                        // at least one row, and all
};

// Makes the backend for a precision.
using MakeOps = std::function<std::unique_ptr<Ops>(Precision)>;

// `folder` holds a checkpoint, golden.safetensors and golden.json.
LogitsParity check_logits_parity(const std::filesystem::path& folder, const MakeOps& make_ops,
                                 const CancelToken& cancel);

}  // namespace perigee
