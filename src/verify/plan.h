// What there is to compare in one output file: every tensor is matched by name with what it must have come
// from, and shapes and types are checked. Work items come in the order of the output file. Deliberately not
// the converter's rule for outputs: the expectation is computed here a second time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verify/module.h"
#include "verify/verify.h"

namespace perigee::verifying {

// An expert module on both sides.
struct ModuleWork {
  std::int32_t layer = -1, expert = -1;
  Projection projection = Projection::kW1;
  ModuleNames names;
  LocatedTensor source_packed, source_scales, output_packed, output_scales;
  LocatedTensor source_factor, output_factor;  // absent for MXFP4
  LocatedTensor source_input, output_input;    // input scales, where there are any
  ExpertFormat source_format = ExpertFormat::kNone, output_format = ExpertFormat::kNone;
  std::uint64_t packed_bytes = 0, blocks_per_row = 1;
};

// A tensor that must be the same bytes on both sides.
struct CopyWork {
  LocatedTensor source, output;
};

// A bf16 matrix that became FP8.
struct Fp8Work {
  LocatedTensor source, output, scales;
};

struct WorkPlan {
  std::vector<ModuleWork> modules;
  std::vector<CopyWork> copies;
  std::vector<Fp8Work> fp8;
  ExpertFormat source_format = ExpertFormat::kNone, output_format = ExpertFormat::kNone;
};

// Failures of names, types and shapes go into `failures`; tensors that have one are not in the plan.
WorkPlan plan_work(TensorCatalog& source, const std::shared_ptr<const CheckedShard>& output,
                   const OutputShard& options, FailureList& failures);

// Names of the output tensors that `source_name` must have in a checkpoint of `format`; `fp8` for an
// attention weight that was converted to FP8. Input scales are not among them.
std::vector<std::string> required_outputs(const std::string& source_name, ExpertFormat format, bool fp8);

}  // namespace perigee::verifying
