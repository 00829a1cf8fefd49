// perigee verify of a store: the screen, the JSON and the exit status; the work is pack/verify_store.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "pack/workshop.h"

namespace perigee {

// `json` as the option: empty, a file, or "-". Returns the exit status.
int run_verify_store(const std::filesystem::path& store, const std::optional<std::filesystem::path>& source,
                     const WorkOptions& options, const std::string& json);

}  // namespace perigee
