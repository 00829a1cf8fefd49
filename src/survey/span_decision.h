// What is known about one scale-sharing set while its evidence comes in (span_survey.h): first the scale
// bytes, then perhaps some nibbles, then perhaps all. Pure bookkeeping; reads nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "numerics/expert_scan.h"
#include "survey/expert_map.h"
#include "survey/span_survey.h"

namespace perigee {

// Groups [first, first + count) of a module.
struct GroupRun {
  const ExpertModulePlace* module = nullptr;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Scale bytes of a piece of one module.
struct ScaleBytes {
  std::array<std::uint64_t, 256> groups{};
  // Where the bytes lie that are too far below the piece's own largest; empty if there are more than is worth
  // keeping.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> far_below;  // first group, count
};
ScaleBytes count_scale_bytes(std::span<const std::byte> scales);

// Codes 0 and 8 only.
bool all_nibbles_zero(std::span<const std::byte> packed);

class SpanDecision {
 public:
  SpanDecision(std::int32_t layer, std::int32_t expert, bool gate_up);

  void add_scales(const ExpertModulePlace* module, std::uint64_t first_group, const ScaleBytes& bytes);
  void finish_scales();
  // What must be looked at next; kScales when the set is decided.
  SpanEvidence needs() const { return needs_; }

  const std::vector<GroupRun>& offending_runs() const { return runs_; }
  void add_offending(bool active) { offending_active_ |= active; }
  void finish_offending();

  void add_scan(const Mxfp4Scan& scan);
  void finish_scan();

  // Valid once needs() is kScales.
  const SetSpan& result() const { return result_; }
  const SpanHistogram& histogram() const { return histogram_; }

 private:
  void summarise();  // fills result_ and histogram_ from scan_

  SetSpan result_;
  SpanHistogram histogram_{};
  SpanEvidence needs_ = SpanEvidence::kScales;
  std::vector<GroupRun> runs_;
  bool offending_active_ = false;
  Mxfp4Scan scan_;  // until nibbles are known every group counts as active
};

}  // namespace perigee
