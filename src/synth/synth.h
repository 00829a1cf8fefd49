// Synthetic checkpoints with K3's real names, structure and statistics at any size, for tests and rehearsals.
// The values are random: such a checkpoint converts, verifies and loads like the release, but does not speak.
// Every tensor is a pure function of (seed, name, options), so the bytes do not depend on threads or on what
// else is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/async_io.h"
#include "base/cancel.h"
#include "base/progress.h"
#include "checkpoint/config.h"
#include "checkpoint/tensor_name.h"

namespace perigee {

enum class SynthPreset {
  kTiny,   // about 2 MB, 4 layers, 8 experts each
  kSmall,  // about 180 MB, 8 layers, 64 experts each
  kSlice,  // K3's real widths, 4 layers, 64 experts each, small vocabulary: about 8 GB
  kK3,     // K3
};

// Replacements of a preset's sizes; what is not set stays.
struct SynthSizes {
  std::optional<std::uint64_t> layers, experts, hidden, moe_width, latent, dense_width, heads, head_dim,
      vocab;
  std::optional<std::uint64_t> vision_blocks;
};

enum class ZeroGroupScale {
  kKept,    // as if the group were not zero
  kZero,    // 0x00
  kRandom,  // anything but 0xFF
};

// What makes routed experts difficult. Applies to experts whose number is a multiple of `every`.
struct ExpertStress {
  std::uint64_t every = 1;
  std::optional<unsigned>
      span;  // scale exponents fill exactly this many binades below a module's largest; at most 24
  double negative_zeros = 0;  // fraction of the zero weights that are -0
  double zero_groups = 0;     // fraction of groups of 32 that are all zero (never the first five of a module)
  ZeroGroupScale zero_group_scale = ZeroGroupScale::kKept;
  bool byte_00 = false;                // group 2 of each module is active and has scale byte 0x00
  bool byte_ff = false;                // group 3 is active and has scale byte 0xFF (NaN)
  bool byte_ff_zero = false;           // group 4 is all zero and has scale byte 0xFF
  unsigned uneven_pair = 0;            // w3's scale exponents are this much lower than w1's; at most 64
  std::optional<Projection> all_zero;  // this projection is all zero, scale bytes by zero_group_scale
};

struct SynthOptions {
  SynthPreset preset = SynthPreset::kTiny;
  SynthSizes sizes;
  std::uint64_t seed = 1;
  ExpertStress experts;

  bool nan = false;          // the first two values of every self_attn.o_proj are NaN
  bool a_log_tail = false;   // the padding of A_log is not zero
  bool split_pairs = false;  // w3 of the stressed experts is in the next shard
  bool shuffle = false;      // tensors of a file in random order
  std::string extra_tensor;  // a BF16 tensor of this name in the last shard; none if empty

  std::vector<std::uint64_t> shards;  // write only these, counted from 1; empty = all
  bool full_index = false;            // index all shards although only some are written
  bool ghost = false;                 // real headers, but holes instead of data
  bool overwrite = false;             // replace a checkpoint that synth made here
  unsigned jobs = 0;                  // worker threads, 0 = one per CPU
  IoBackend io = IoBackend::kAuto;
};

struct SynthSummary {
  std::uint64_t shards = 0;   // written
  std::uint64_t tensors = 0;  // in them
  std::uint64_t tensor_bytes = 0;
  std::uint64_t file_bytes = 0;  // of the shards, headers included
  std::uint64_t experts = 0;
  double seconds = 0;
};

// The config of a preset with the replacements; kUsage naming the size that makes no sense.
K3Config synth_config(SynthPreset preset, const SynthSizes& sizes = {});

// Writes a checkpoint folder. Every file appears whole or not at all, the index last. `cancel` may be null.
// kExists if `out` is not empty (with `overwrite`: if it holds anything but what synth made), kNoSpace before
// writing if the disk is too small, kUsage for options that contradict the sizes.
SynthSummary make_checkpoint(const std::filesystem::path& out, const SynthOptions& options,
                             const CancelToken* cancel = nullptr,
                             ProgressStyle progress = ProgressStyle::kOff);

}  // namespace perigee
