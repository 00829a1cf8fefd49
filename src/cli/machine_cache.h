// Where the rates of this machine are kept between runs: machine.json in the user's cache folder
// (XDG_CACHE_HOME/perigee, else ~/.cache/perigee), written by `perigee bench machine` and read by plans.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <optional>

#include "bench/machine_rates.h"

namespace perigee {

// --machine-rates FILE, whose default is the cache file.
void add_rates_option(CLI::App& command, std::filesystem::path& file);

// `given`, else the user's; empty if the user has no home.
std::filesystem::path rates_file(const std::filesystem::path& given);

// nullopt if there is no such file yet; kCorrupt if it holds something else.
std::optional<MachineRates> load_machine_rates(const std::filesystem::path& file);
// Of the depths that were measured; nothing if none was.
std::optional<double> best_disk_rate(const MachineRates& rates);
// The best rate of the drive that is kept there; nothing without one, or if it cannot be read.
std::optional<double> known_disk_rate();
// Makes the folder if need be; a warning if it cannot be kept.
void keep_machine_rates(const MachineRates& rates, const std::filesystem::path& file);

}  // namespace perigee
