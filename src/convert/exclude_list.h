// The lists that tell engines which modules of a converted checkpoint stayed unquantised. A forgotten entry
// makes an engine read BF16 as packed FP4; one too broad makes it build 1.5 TB of experts as BF16. Whether a
// list does its work is decided by engines/matcher.h, which must be asked before a checkpoint is published.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "convert/target_layout.h"

namespace perigee {

// Glob patterns for kModelOpt and kNvidiaMixed, "re:" regular expressions for kCompressedTensors, and the
// released list for kMxfp4.
std::vector<std::string> exclude_list(Layout layout, const K3Config& config);

}  // namespace perigee
