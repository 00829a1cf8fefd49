// Options and words that the measurements of the forward pass share.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "compute/matrix.h"
#include "synth/synth.h"

namespace perigee {

// What the tables call good: parts of the machine's own limit.
inline constexpr double kMemoryGoal = 0.85;         // of what the threads read, where memory is the limit
double instruction_goal(std::string_view backend);  // of the multiply-adds of its instruction set

// --rounds
void add_rounds_option(CLI::App& command, unsigned& rounds);

// --memory in GB. memory_bytes() checks it: kNoSpace if the machine has less available.
void add_memory_option(CLI::App& command, double& gigabytes, const std::string& help);
std::uint64_t memory_bytes(double gigabytes);

// The sizes of a model that is made in memory: --preset, --real-size, and --memory, whose default is 8 GB or
// half of what is available.
struct MadeModelOptions {
  SynthPreset preset = SynthPreset::kSmall;
  std::optional<double> memory_gb;
  WeightFormat experts = WeightFormat::kMxfp4;

  K3Config config() const { return synth_config(preset); }
  std::uint64_t bytes() const;
};
void add_made_model_options(CLI::App& command, MadeModelOptions& options);
const char* preset_name(SynthPreset preset);  // "tiny", "small", "k3"

// --threads as a list; thread_counts() gives 1 and all cores if it is empty.
void add_thread_list_option(CLI::App& command, std::vector<unsigned>& threads);
std::vector<unsigned> thread_counts(const std::vector<unsigned>& given);

// `--backend` as a list; backend_list() gives all but the reference if it is empty, and that too if
// `reference` asks for it. kUnsupported for a backend that this machine has not.
std::vector<std::string> backend_list(const std::vector<std::string>& given, bool reference);

// What a measurement calls before each step: it ends there if cancelled. Keeps a reference.
std::function<void(const std::string&)> announcer(const CancelToken& cancel);

std::string giga(double per_second);         // "12.34"
std::string fraction_text(double fraction);  // "85.3 %"

}  // namespace perigee
