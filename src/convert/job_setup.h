// What has to be settled before the first byte is converted: options that contradict each other, folders that
// must not be touched, what the source is, and the fingerprint that tells one job from another.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/index.h"
#include "convert/convert.h"
#include "convert/output_tensors.h"

namespace perigee {

// "cast", "requant", "requant-4over6"
const char* method_name(Method method);

// kUsage for options that do not go together, source and output inside one another, or a missing source
// folder.
void check_job_options(const ConvertOptions& options);

// From what to what, by the source's manifest and index; every shard is held to it when it is read.
Conversion make_conversion(const ConvertOptions& options, const CheckpointIndex& index);

// A hash of everything that decides the output's bytes, and of nothing else.
std::string job_fingerprint(const ConvertOptions& options, const Conversion& conversion,
                            const CheckpointIndex& index, const std::vector<std::string>& selected_shards,
                            const std::string& config_text);

}  // namespace perigee
