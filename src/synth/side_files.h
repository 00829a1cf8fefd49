// Everything in a checkpoint folder that is not a shard or an index.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "synth/synth.h"

namespace perigee::synth {

// A folder whose README.md starts with this line was made by synth and may be overwritten by it.
inline constexpr const char* kReadmeTitle = "# Synthetic checkpoint in the layout of Kimi K3";

struct SideFile {
  std::string name;
  std::string text;
};

// README.md first.
std::vector<SideFile> side_files(const K3Config& config, const SynthOptions& options);

}  // namespace perigee::synth
