// Whether a config.json describes the network that this program runs. Sizes are read elsewhere
// (checkpoint/config.h); this is about the choices that have no number.
#pragma once

#include <filesystem>

namespace perigee {

// kUnsupported naming the first key whose value is not K3's, kCorrupt for a missing one.
void check_architecture(const std::filesystem::path& config_json);

}  // namespace perigee
