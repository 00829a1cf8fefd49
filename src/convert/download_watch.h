// Shards that are still arriving: which are complete, and waiting for the next one (convert --follow).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/cancel.h"

namespace perigee {

// True if the file is there, as long as its header says, and without the marks that download tools leave
// beside an unfinished one (.aria2, .incomplete, .part, .tmp).
bool is_complete_download(const std::filesystem::path& shard);

// Removes and returns the first of `pending` whose download in `folder` is complete; waits for one if there
// is none. kNotFound after `timeout_seconds` without any, kInterrupted when cancelled. `cancel` may be null.
std::string take_complete_download(const std::filesystem::path& folder, std::vector<std::string>& pending,
                                   double timeout_seconds, const CancelToken* cancel);

}  // namespace perigee
