// `perigee doctor`: what of a machine makes streaming slow or impossible, and what to do about it. Looks
// only; changes nothing and measures nothing (`perigee bench machine` measures).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/system_files.h"

namespace perigee {

enum class CheckLevel { kOk, kWarn, kFail };
const char* check_level_name(CheckLevel level);  // "ok", "warn", "fail"

struct Check {
  std::string name;
  CheckLevel level = CheckLevel::kOk;
  std::string found;
  std::string advice;  // what to do; empty if all is well
};

// Checks of one thing each. Those that need more than files take it as a parameter.
Check check_processor(std::span<const std::string> backends);  // of available_backends()
Check check_governor(const SystemFiles& system);
Check check_numa(const SystemFiles& system);
Check check_memory(const SystemFiles& system);
Check check_control_group(const SystemFiles& system);
Check check_swap(const SystemFiles& system);
Check check_huge_pages(const SystemFiles& system);
Check check_locked_memory(std::optional<std::uint64_t> limit_bytes);  // nullopt: unlimited
Check check_open_files(std::uint64_t limit);
Check check_async_io(const SystemFiles& system, const std::string& io_name);
Check check_file_system(const SystemFiles& system, const std::filesystem::path& folder);
Check check_direct_io(const std::filesystem::path& folder);
Check check_drive(const SystemFiles& system, const std::filesystem::path& folder);
Check check_free_space(const std::filesystem::path& folder);

// All of them, for reading experts from this folder. kNotFound if it does not exist.
std::vector<Check> examine_machine(const std::filesystem::path& folder);

CheckLevel worst_level(std::span<const Check> checks);

}  // namespace perigee
