#include "cli/machine_cache.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = 1 << 20;

// The rules of the XDG base directories: a relative folder counts as none.
fs::path user_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && fs::path(cache).is_absolute()) return fs::path(cache) / "perigee";
  const char* home = std::getenv("HOME");
  if (home != nullptr && fs::path(home).is_absolute()) return fs::path(home) / ".cache" / "perigee";
  return {};
}

}  // namespace

void add_rates_option(CLI::App& command, fs::path& file) {
  command
      .add_option("--machine-rates", file,
                  "File with this machine's rates [perigee/machine.json in the user's cache]")
      ->type_name("FILE");
}

fs::path rates_file(const fs::path& given) {
  if (!given.empty()) return given;
  const fs::path folder = user_cache();
  return folder.empty() ? folder : folder / "machine.json";
}

std::optional<MachineRates> load_machine_rates(const fs::path& file) {
  std::error_code ignored;
  if (file.empty() || !fs::exists(file, ignored)) return std::nullopt;
  return parse_machine_rates(read_small_file(file, kMostBytes), file.string());
}

std::optional<double> best_disk_rate(const MachineRates& rates) {
  if (rates.drive.depths.empty()) return std::nullopt;
  return std::ranges::max(rates.drive.depths, {}, &DepthRate::bytes_per_second).bytes_per_second;
}

std::optional<double> known_disk_rate() {
  try {
    const std::optional<MachineRates> rates = load_machine_rates(rates_file({}));
    return rates ? best_disk_rate(*rates) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void keep_machine_rates(const MachineRates& rates, const fs::path& file) {
  if (file.empty()) return;
  try {
    if (file.has_parent_path()) fs::create_directories(file.parent_path());
    write_file_atomically(file, write_machine_rates(rates));
  } catch (const std::exception& error) {
    log_warning("the rates are not kept: {}", error.what());
  }
}

}  // namespace perigee
