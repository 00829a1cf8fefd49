// `perigee bench stream`: one of the things that `perigee bench` measures.
#pragma once

#include "cli/command.h"

namespace perigee {

void register_bench_stream(CLI::App& bench, CommandContext& context);

}  // namespace perigee
