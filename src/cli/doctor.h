// `perigee doctor`.
#pragma once

#include "cli/command.h"

namespace perigee {

void register_doctor(CLI::App& app, CommandContext& context);

}  // namespace perigee
