// perigee doctor: the checks of plan/doctor.h, for people and for programs.
#include "cli/doctor.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/doctor.h"

namespace perigee {
namespace {

struct DoctorArguments {
  std::filesystem::path folder = ".";
  bool json = false;
};

std::string checks_text(std::span<const Check> checks) {
  std::string text;
  std::size_t warnings = 0, failures = 0;
  for (const Check& check : checks) {
    text += fmt::format("{:<5} {:<14} {}\n", check_level_name(check.level), check.name, check.found);
    if (!check.advice.empty()) text += fmt::format("{:<20} -> {}\n", "", check.advice);
    warnings += check.level == CheckLevel::kWarn;
    failures += check.level == CheckLevel::kFail;
  }
  return text + fmt::format("\n{} checks: {} failed, {} to look at\n", checks.size(), failures, warnings);
}

nlohmann::ordered_json checks_json(const DoctorArguments& arguments, std::span<const Check> checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"level", check_level_name(check.level)},
                    {"found", check.found},
                    {"advice", check.advice}});
  }
  return {{"folder", arguments.folder.string()},
          {"level", check_level_name(worst_level(checks))},
          {"checks", std::move(list)}};
}

int run_doctor(const DoctorArguments& arguments) {
  const std::vector<Check> checks = examine_machine(arguments.folder);
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // names may be no UTF-8
  const std::string output = arguments.json
                                 ? checks_json(arguments, checks).dump(2, ' ', false, replace) + "\n"
                                 : checks_text(checks);
  std::fwrite(output.data(), 1, output.size(), stdout);
  return worst_level(checks) == CheckLevel::kFail ? exit_status(ErrorCode::kUnsupported) : kExitLossless;
}

}  // namespace

void register_doctor(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("doctor", "Check what makes running a model from a drive slow or impossible here");
  const auto arguments = std::make_shared<DoctorArguments>();
  command->add_option("FOLDER", arguments->folder, "Where the model is, or will be")->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer("Exit status: 1 if a check failed; what is only slow does not count.");
  command->callback([arguments, &context] { context.exit_status = run_doctor(*arguments); });
}

}  // namespace perigee
