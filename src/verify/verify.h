// Proves a converted checkpoint from the bytes on disk, ours or anybody's (docs/formats.md). A second
// implementation: decoding is done by its own arithmetic and shares no table and no function with the
// converter, so that a bug there cannot hide itself here. Any known expert format may be on either side.
// Deliberately not a repair tool: it reads, locates and counts.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/async_io.h"
#include "base/cancel.h"
#include "base/progress.h"
#include "checkpoint/config.h"
#include "checkpoint/tensor_name.h"
#include "verify/catalog.h"

namespace perigee {

struct VerifyOptions {
  const CancelToken* cancel = nullptr;
  ProgressStyle progress = ProgressStyle::kOff;
  IoBackend backend = IoBackend::kAuto;       // verify_checkpoint() only
  unsigned workers = 0;                       // 0 = number of CPUs
  unsigned io_depth = 4;                      // pieces whose reads are under way at once
  std::uint64_t memory_bytes = 384ull << 20;  // for pieces in flight
  bool hash = true;                           // SHA-256 of every output file; needs a full pass
  // Share of experts and of slices of other tensors that are read, chosen by name; 1 is everything.
  double sample_fraction = 1.0;
  std::uint64_t sample_experts = 0;  // if not 0: about that many experts instead
  unsigned decode_every = 61;        // blocks that match bit for bit are also decoded to double, each n-th
  std::size_t max_failures = 20;     // kept with their place; the rest is only counted
};

enum class Verdict { kLossless, kLossy, kFailed };
const char* verdict_name(Verdict verdict);  // "lossless", "lossy", "failed"

struct VerifyFailure {
  std::string check;  // "header", "index", "missing-tensor", "extra-tensor", "shape", "copy", "nibbles",
                      // "block-scale", ...
  std::string file;
  std::string tensor;  // empty if the whole file is meant
  std::optional<std::uint64_t> row;
  std::optional<std::uint64_t> block;  // of 16 weights, within its row
  std::optional<std::uint64_t> byte;   // within the tensor
  std::string expected;
  std::string found;
  std::string message;  // one sentence for people
};

// Collects failures up to a limit and counts beyond it.
struct FailureList {
  std::size_t limit = 20;
  std::uint64_t count = 0;
  std::vector<VerifyFailure> kept;
  void add(VerifyFailure failure);
  void append(const FailureList& other);
};

// Sums over the elements of modules or tensors, in exact source units.
struct ErrorSums {
  double source_squared = 0, output_squared = 0, product = 0, error_squared = 0, max_abs_error = 0;
  std::uint64_t elements = 0;
  void add(const ErrorSums& other);
  double relative_rmse() const;  // 0 if the source is all zero
  double cosine() const;         // 1 if either is all zero
  double norm_ratio() const;     // |output| / |source|; 1 if the source is all zero
};

// What is known about one expert module (w1, w2 or w3) after comparing it.
struct VerifiedModule {
  std::int32_t layer = -1, expert = -1;
  Projection projection = Projection::kW1;
  bool failed = false;
  std::uint32_t block_elements = 32;  // of the source: 32 for MXFP4, 16 for NVFP4; "blocks" below are these
  std::uint64_t blocks = 0, zero_blocks = 0;
  // Active blocks by the power of two of their source scale, ascending; only powers that occur.
  std::vector<std::pair<std::int16_t, std::uint32_t>> active_by_exponent;
  std::uint64_t byte_00_blocks = 0, byte_ff_blocks = 0;  // scale bytes of the source, MXFP4 only
  std::uint64_t source_negative_zeros = 0;               // nibbles 8
  std::uint64_t normalised_negative_zeros = 0;           // of them, those that became 0
  std::uint64_t equal_blocks16 = 0;                      // same nibbles but for -0, same scale
  std::uint64_t rescaled_blocks16 = 0;                   // same values, other nibbles and scale
  std::uint64_t changed_blocks16 = 0;                    // some value differs
  std::uint64_t decoded_blocks16 = 0;                    // compared as doubles
  std::uint64_t nan_values = 0;
  float tensor_scale = 0;  // as stored in the output; 0 if the layout has none
  float input_scale = 0;   // as stored in the output; 0 if there is none
  bool measured = false;   // `error` covers the whole module
  ErrorSums error;

  std::optional<int> max_exponent() const;  // K over active blocks
  std::optional<int> min_exponent() const;
};

// An attention weight stored as FP8 with a scale per 128 x 128 tile.
struct VerifiedFp8 {
  std::string tensor;
  std::uint64_t tiles = 0;
  ErrorSums error;
};

// The file to check. It may still have its temporary name, and no index needs to exist.
struct OutputShard {
  std::filesystem::path path;
  std::string name;  // for reports; empty = the path's last part
  // Every tensor of this source file must have its outputs here; empty if shards do not correspond.
  std::string source_shard;
  // Where else parts of a module may be; null means that they all have to be in this file.
  TensorCatalog* others = nullptr;
  // The format that the experts must have; detected from the file if kNone.
  ExpertFormat format = ExpertFormat::kNone;
};

struct ShardVerification {
  std::string file;
  std::uint64_t file_bytes = 0;
  std::uint64_t tensors = 0;
  Verdict verdict = Verdict::kLossless;
  ExpertFormat source_format = ExpertFormat::kNone, output_format = ExpertFormat::kNone;
  FailureList failures;
  std::string sha256;                                  // empty unless the whole file was read
  std::uint64_t xxh3 = 0;                              // of the whole file; only if there is a sha256
  std::uint64_t copied_tensors = 0, copied_bytes = 0;  // compared byte for byte
  std::uint64_t bytes_read = 0;                        // from both sides
  std::uint64_t units = 0, units_skipped = 0;          // experts and slices; skipped by sampling
  std::vector<VerifiedModule> modules;
  std::vector<VerifiedFp8> fp8;
};

// Checks one output file against the source. Failures of the output are in the result; an unreadable source,
// interruption and the operating system's errors are thrown.
ShardVerification verify_shard(AsyncIo& io, TensorCatalog& source, const OutputShard& shard,
                               const VerifyOptions& options, Progress* progress = nullptr);

// Modules that share one scale: w1 and w3 of an expert, or w2 alone.
struct SpanSummary {
  std::array<std::uint64_t, 18> active_by_distance{};  // K - k = 0..17 of blocks of `block_elements`
  std::uint64_t beyond = 0;                            // K - k > 17
  std::uint64_t marlin_unsafe_blocks16 = 0;            // K - k in 15..17
};

struct VerifiedTotals {
  std::uint64_t modules = 0, blocks = 0, zero_blocks = 0;
  std::uint64_t equal_blocks16 = 0, rescaled_blocks16 = 0, changed_blocks16 = 0, decoded_blocks16 = 0;
  std::uint64_t source_negative_zeros = 0, normalised_negative_zeros = 0, byte_00_blocks = 0,
                byte_ff_blocks = 0;
  std::uint64_t nan_values = 0;
  std::uint64_t changed_modules = 0, measured_modules = 0, input_scales = 0;
  std::uint64_t outside_gate = 0;  // changed modules with a larger error than standard requantisation makes
  std::optional<int> max_exponent, min_exponent;
  SpanSummary span;
  ErrorSums error;  // over the measured modules
  void add(const VerifiedModule& module, const SpanSummary& span);
};

struct VerifyReport {
  std::filesystem::path source, output;
  Verdict verdict = Verdict::kLossless;
  bool sampled = false;
  std::uint64_t source_shards = 0, source_shards_absent = 0;  // absent > 0: a partial output
  ExpertFormat source_format = ExpertFormat::kNone, output_format = ExpertFormat::kNone;
  FailureList failures;
  std::vector<std::string> warnings;
  std::vector<ShardVerification> shards;  // their `modules` are moved into the report
  std::vector<VerifiedModule> modules;    // by layer, expert, projection
  std::vector<SpanSummary> spans;         // one per module, with the K that it shares
  VerifiedTotals total;
  std::map<int, VerifiedTotals> by_projection;  // 1, 2, 3
  std::map<int, VerifiedTotals> by_layer;
  ErrorSums fp8;
  std::uint64_t fp8_tensors = 0;
  bool checksums_compared = false;  // there was a SHA256SUMS and all its lines were compared
  double seconds = 0;

  bool partial() const { return source_shards_absent > 0; }
};

// Checks everything: tensors, index, config, manifests, checksums. Throws only as verify_shard() does.
VerifyReport verify_checkpoint(const std::filesystem::path& source, const std::filesystem::path& output,
                               const VerifyOptions& options);

}  // namespace perigee
