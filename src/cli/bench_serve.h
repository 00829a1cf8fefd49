// `perigee bench serve`: one of the things that `perigee bench` measures.
#pragma once

#include "cli/command.h"

namespace perigee {

void register_bench_serve(CLI::App& bench, CommandContext& context);

}  // namespace perigee
