// How far apart the scales of each scale-sharing set lie, and so whether the lossless cast will work, before
// anything is written. Reads the block scales only (6 % of an MXFP4 checkpoint). Groups whose weights are all
// zero do not count for the span but cannot be told from their scale byte, so a set that fits by its bytes
// alone is certain to fit, and only for the others nibbles are read: those of the groups that do not fit,
// then all of the set. Deliberately not a proof of a conversion: that is `perigee verify`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "checkpoint/config.h"

namespace perigee {

enum class SpanEvidence {
  kScales,           // block scales alone; zero groups are counted as if they had values
  kOffendingGroups,  // also the nibbles of the groups that seemed not to fit: all of them are zero
  kAllNibbles,       // every nibble of the set; all numbers are exact
};
const char* span_evidence_name(SpanEvidence evidence);

// Why the cast would be refused, or not.
enum class SpanVerdict {
  kLossless,
  kOverSpan,     // active groups more than 17 binades below K
  kNanScale,     // scale byte 0xFF
  kBeyondFloat,  // a value larger than the largest float
  kTooSmall,     // K below -118: the tensor scale would not be a normal float
};
const char* span_verdict_name(SpanVerdict verdict);

// Groups of 32 by d = K - k: 0..17 fit; the last bin holds everything further down.
inline constexpr std::size_t kSurveyBins = 19;
using SpanHistogram = std::array<std::uint64_t, kSurveyBins>;

// One scale-sharing set of an MXFP4 checkpoint: w1 and w3 of an expert, or its w2.
struct SetSpan {
  std::int32_t layer = 0, expert = 0;
  bool gate_up = false;  // w1 and w3; else w2
  SpanEvidence evidence = SpanEvidence::kScales;
  SpanVerdict verdict = SpanVerdict::kLossless;
  bool any_active = false;
  int max_exponent = 0;  // K
  int min_exponent = 0;
  std::uint64_t groups = 0;         // of 32, all
  std::uint64_t active_groups = 0;  // those that count, as far as the evidence tells
  std::uint64_t over_span_groups = 0;
  std::uint64_t marlin_unsafe_blocks = 0;  // blocks of 16 with d in 15..17: Marlin reads them as zero
  std::uint64_t byte_00_groups = 0, byte_ff_groups = 0;
};

struct SpanTotals {
  std::uint64_t sets = 0, lossless_sets = 0, groups = 0, active_groups = 0;
  std::uint64_t over_span_groups = 0, marlin_unsafe_blocks = 0, byte_00_groups = 0, byte_ff_groups = 0;
  std::array<std::uint64_t, 3> sets_by_evidence{};  // by SpanEvidence
  int max_exponent = 0, min_exponent = 0;           // over sets that have active groups
  bool any_active = false;
  SpanHistogram histogram{};
  void add(const SetSpan& set, const SpanHistogram& set_histogram);
  void add(const SpanTotals& other);
};

struct LayerSpans {
  std::int32_t layer = 0;
  SpanTotals gate_up, down;
};

// NVFP4 checkpoints have E4M3 block scales instead; what matters there are codes that kernels treat
// specially.
struct CodeTotals {
  std::uint64_t modules = 0, blocks = 0;  // blocks of 16
  std::uint64_t zero = 0, subnormal = 0, negative = 0, nan = 0;
  std::uint64_t not_power_of_two = 0;       // such a scale cannot come from the lossless cast
  std::uint8_t min_code = 0, max_code = 0;  // over positive finite codes; 0 if there are none
  void add_codes(const std::array<std::uint64_t, 256>& codes);
  void add(const CodeTotals& other);
};

struct LayerCodes {
  std::int32_t layer = 0;
  CodeTotals gate_up, down;
};

struct SpanSurvey {
  ExpertFormat format = ExpertFormat::kNone;
  std::vector<LayerSpans> spans;  // MXFP4
  std::vector<SetSpan> sets;      // MXFP4, by layer, expert, w1+w3 before w2
  std::vector<LayerCodes> codes;  // NVFP4
  std::uint64_t incomplete_experts = 0, missing_shards = 0;
  std::uint64_t bytes_read = 0;
};

struct SpanSurveyOptions {
  bool all_nibbles = false;  // exact numbers for every set, for the price of reading everything
  unsigned workers = 0;
  ProgressStyle progress = ProgressStyle::kOff;
  const CancelToken* cancel = nullptr;
};

SpanSurvey survey_spans(const std::filesystem::path& checkpoint, const SpanSurveyOptions& options);

}  // namespace perigee
