#include "cli/machine_state.h"

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/machine_cache.h"
#include "cli/streaming_status.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

// Null without a measurement.
Json measured_limits() {
  try {
    const std::optional<MachineRates> rates = load_machine_rates(rates_file({}));
    if (!rates) return nullptr;
    return {{"memory_bytes_per_second", rates->memory_bytes_per_second},
            {"disk_bytes_per_second", best_disk_rate(*rates).value_or(0)}};
  } catch (const std::exception& error) {
    log_warning("the state shows no limits of this machine: {}", error.what());
    return nullptr;
  }
}

}  // namespace

std::function<Json()> machine_state(const ModelOptions& options, const SchedulerOptions& scheduler,
                                    const OpenModel& model) {
  Json fixed = {{"backend", model.backend()},
                {"threads", thread_count(options)},
                {"precision", precision_name(options.precision)},
                {"most_running", scheduler.most_running},
                {"most_waiting", scheduler.most_waiting},
                {"routed_experts", model.config().moe_layers() * model.config().num_experts},
                {"limits", measured_limits()}};
  return [fixed = std::move(fixed), &model] {
    Json state = fixed;
    state["experts"] = experts_json(model.weights());
    return state;
  };
}

}  // namespace perigee
