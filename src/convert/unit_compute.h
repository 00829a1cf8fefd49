// Turns one unit's input bytes into its output bytes. Pure: no files, no order, any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convert/module_record.h"
#include "convert/scale_policy.h"
#include "convert/shard_plan.h"

namespace perigee {

enum class InexactScale { kFail, kRound };  // a reciprocal between layouts that is not exact

struct ComputeOptions {
  Conversion conversion;
  ScalePolicy policy;
  InexactScale inexact_scale = InexactScale::kFail;
};

// inputs: one span per read of the unit. out: unit.out_length bytes, all of which are written, except for an
// Fp8Scales unit, which retire fills (write_fp8_scales) once its slices are done.
// Returns a record for every module whose block scales are among the outputs.
std::vector<ModuleRecord> compute_unit(const Unit& unit, std::span<const std::span<const std::byte>> inputs,
                                       std::span<std::byte> out, const ComputeOptions& options);

void write_fp8_scales(const Fp8Scales& work, std::span<std::byte> out);

}  // namespace perigee
