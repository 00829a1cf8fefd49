// What one source shard becomes: the output header and a list of units in the order of the output's bytes. A
// unit is what one worker turns from input to output in memory: a slice of plain bytes, one expert, or a
// slice of an FP8 tensor. Everything about placement is decided here, so that the bytes do not depend on who
// computes them when.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/pipeline.h"
#include "checkpoint/safetensors.h"
#include "convert/output_tensors.h"
#include "convert/source_shards.h"

namespace perigee {

// Bytes of one source tensor inside the inputs of a task; length 0 means that the module has no such tensor.
struct Placement {
  std::size_t input = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct ModulePlan {
  std::string name;  // "…experts.5.w1"
  Projection projection = Projection::kW1;
  std::uint64_t groups_per_row = 0;  // groups of 32
  Placement nibbles;                 // [out, in/2]
  Placement scales;                  // E8M0 [out, in/32] or E4M3 [out, in/16]
  Placement tensor_scale;            // F32, NVFP4 sources
  Placement input_scale;             // F32, NVFP4 sources that have one
};

struct ExpertOutput {
  Recipe recipe = Recipe::kPackedNibbles;
  std::size_t module = 0;    // index into ExpertUnit::modules
  std::uint64_t offset = 0;  // from the unit's first output byte
  std::uint64_t length = 0;
};

// Some or all tensors of one expert that follow one another in the file. `modules` holds every module that
// shares a scale with one of the outputs, wherever its bytes are.
struct ExpertUnit {
  std::vector<ModulePlan> modules;
  std::vector<ExpertOutput> outputs;
};

struct CopyUnit {};  // output = the single input

struct Fp8Slice {
  std::string tensor;
  std::uint64_t first_row = 0;  // a multiple of 128
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::shared_ptr<std::vector<float>> scales;  // of the whole tensor; slices fill disjoint parts
};

// The scales of an FP8 tensor, complete once all slices before it have been computed.
struct Fp8Scales {
  std::shared_ptr<const std::vector<float>> scales;
};

struct Unit {
  std::uint64_t out_begin = 0;  // in the output's data buffer
  std::uint64_t out_length = 0;
  std::vector<Extent> reads;
  std::variant<CopyUnit, ExpertUnit, Fp8Slice, Fp8Scales> work;
};

struct ShardPlan {
  std::string file_name;
  std::vector<TensorInfo> outputs;  // offsets assigned
  std::string header;               // the first bytes of the file
  std::uint64_t file_bytes = 0;
  std::uint64_t source_bytes = 0;  // data bytes of the source shard
  std::uint64_t fp8_tensors = 0;
  std::vector<Unit> units;
  std::uint64_t largest_slot = 0;                         // for Pipeline::run
  std::vector<std::shared_ptr<const OpenShard>> sources;  // keeps the files of `reads` open
};

// kCorrupt or kUnsupported naming the tensor when the shard cannot be converted (a module without its scales,
// widths that do not fit together, a missing partner of w1 or w3).
ShardPlan plan_shard(SourceShards& sources, const std::string& file_name, const Conversion& conversion);

}  // namespace perigee
