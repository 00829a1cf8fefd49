// `perigee parity block`: one of the things that `perigee parity` compares.
#pragma once

#include "cli/command.h"

namespace perigee {

void register_parity_block(CLI::App& parity, CommandContext& context);

}  // namespace perigee
