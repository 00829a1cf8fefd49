// The four views of `perigee inspect`, as text and as JSON. What they show is computed in checkpoint/ and
// convert/; here it is only written down.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/disk_rate.h"
#include "checkpoint/block_view.h"
#include "checkpoint/overview.h"
#include "convert/size_plan.h"
#include "survey/span_survey.h"

namespace perigee {

using Json = nlohmann::ordered_json;

// `findings_shown` bounds the lines per kind of finding; the rest is counted.
std::string overview_text(const std::string& path, const CheckpointOverview& overview,
                          std::size_t findings_shown);
Json overview_json(const std::string& path, const CheckpointOverview& overview);

std::string blocks_text(const BlockView& view);
Json blocks_json(const BlockView& view);

// The disk that a conversion would write to.
struct OutputDisk {
  std::string folder;
  std::uint64_t free_bytes = 0;
  std::optional<DiskRate> rate;  // empty: not asked for
  bool measured = false;         // else given by the user
};
std::string plan_text(const std::string& path, const SizePlan& plan, const OutputDisk& disk);
Json plan_json(const std::string& path, const SizePlan& plan, const OutputDisk& disk);

std::string spans_text(const std::string& path, const SpanSurvey& survey);
Json spans_json(const std::string& path, const SpanSurvey& survey);

}  // namespace perigee
