// What GET /v1/state says of the machine and of where the model's weights live: for the page's view of the
// machine. Rates are those that `perigee bench machine` kept, if it was ever run; nothing is measured here.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "cli/model_options.h"
#include "engine/scheduler.h"

namespace perigee {

// Keeps a reference to the model; may be called from any thread. Damaged rates are warned of and left out.
std::function<nlohmann::ordered_json()> machine_state(const ModelOptions& options,
                                                      const SchedulerOptions& scheduler,
                                                      const OpenModel& model);

}  // namespace perigee
