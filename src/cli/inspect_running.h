// The part of `perigee inspect --plan` that is about running a model: its options, where its rates come from,
// and how plan/run_plan.h is shown.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "plan/run_plan.h"

namespace perigee {

struct RunningOptions {
  std::uint64_t ram_bytes = 0;   // 0: what is available
  std::uint64_t vram_bytes = 0;  // of GPUs: nothing computes there
  RunRequest request;
  unsigned drives = 1;
  std::filesystem::path trace;
  std::filesystem::path rates;
  bool calibrate = false;
};
// Each of them needs `plan`, the flag --plan.
void add_running_options(CLI::App& command, CLI::Option* plan, RunningOptions& options);

struct RunningView {
  ModelSizes sizes;
  RunRequest request;
  RunPlan plan;
  unsigned drives = 1;
  bool assumed_rates = false;
  std::string rates;       // where they come from
  std::string assumption;  // about routing
};

// `drive_rate` in bytes per second if the user gave it. `may_measure`: without kept rates they are measured
// if somebody sits there.
RunningView plan_running(const std::filesystem::path& folder, const ModelSizes& sizes,
                         const RunningOptions& options, std::optional<double> drive_rate, bool may_measure,
                         const CancelToken& cancel);

std::string running_text(const RunningView& view);
nlohmann::ordered_json running_json(const RunningView& view);

}  // namespace perigee
