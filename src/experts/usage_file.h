// How often every expert was used, kept in a file from run to run, so that a new run begins with the popular
// set in memory. A text file of whole numbers, millionths of a use per step; a lost one costs speed, nothing
// else.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "experts/cache_policy.h"

namespace perigee {

std::string write_usage(const ExpertUsage& usage);

// kCorrupt naming `origin` and the line for anything that write_usage() does not write; allocates no more
// than a small multiple of the text.
ExpertUsage parse_usage(std::string_view text, const std::string& origin);

// nullopt if there is no such file yet.
std::optional<ExpertUsage> load_usage(const std::filesystem::path& path);
void save_usage(const ExpertUsage& usage, const std::filesystem::path& path);

}  // namespace perigee
