// The program: global options, signals, and the one place where an error becomes a message and an exit
// status. What a command does is in its own file.

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/signals.h"

namespace perigee {
namespace {

constexpr const char* kDescription =
    "Perigee makes and proves NVFP4 checkpoints of Kimi K3, and speaks its chat format.\n"
    "A checkpoint is a folder with config.json, model.safetensors.index.json and its shards.";

constexpr const char* kFooter =
    "Examples:\n"
    "  perigee synth tiny --preset tiny              make a tiny checkpoint to play with\n"
    "  perigee inspect tiny                          what is in it\n"
    "  perigee convert tiny out --layout modelopt    MXFP4 to NVFP4, without loss\n"
    "  perigee verify tiny out                       prove it from the bytes on disk\n"
    "  perigee render chat.json                      the prompt of a conversation, segment by segment\n"
    "  perigee chat CKPT                             talk with a model; run answers once\n"
    "  perigee serve -m CKPT                         serve a model as OpenAI's and Anthropic's APIs\n"
    "  perigee convert --help                        everything about one command\n"
    "\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 done but values changed as asked, 130 interrupted.\n"
    "Ctrl-C stops within a second and the same command resumes; a second Ctrl-C kills.";

struct GlobalOptions {
  bool json_errors = false;
};

LogLevel parse_log_level(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kLevels = {
      {{"debug", LogLevel::kDebug},
       {"info", LogLevel::kInfo},
       {"warning", LogLevel::kWarning},
       {"error", LogLevel::kError},
       {"off", LogLevel::kOff}}};
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  fail(ErrorCode::kUsage, "--log-level {}: must be debug, info, warning, error or off", name);
}

void add_global_options(CLI::App& app, GlobalOptions& options) {
  app.set_version_flag("--version", std::string("perigee ") + kVersion, "Print the version and exit");
  // Both act as soon as they are parsed, so that they hold for what is wrong in the rest of the line.
  app.add_option_function<std::string>(
         "--log-level", [](const std::string& name) { set_log_level(parse_log_level(name)); },
         "Least severe message on standard error: debug, info, warning, error, off [info]")
      ->type_name("LEVEL")
      ->trigger_on_parse();
  app.add_flag("--json-errors", options.json_errors,
               "Print an error as one line of JSON: event, code, message")
      ->trigger_on_parse();
}

// "perigee convert" if the command line got that far, else "perigee".
std::string command_name(const CLI::App& app) {
  const std::vector<const CLI::App*> parsed = app.get_subcommands({});
  for (const CLI::App* command : parsed) {
    if (command->parsed()) return "perigee " + command->get_name();
  }
  return "perigee";
}

void report_error(ErrorCode code, const std::string& sentence, bool json) {
  if (json) {
    const nlohmann::ordered_json line = {
        {"event", "error"}, {"code", error_code_name(code)}, {"message", sentence}};
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // file names may be no UTF-8
    std::fputs((line.dump(-1, ' ', false, replace) + "\n").c_str(), stderr);
  } else {
    std::fputs(("error: " + sentence + "\n").c_str(), stderr);
  }
}

int report_usage(const CLI::App& app, const CLI::ParseError& error, bool json) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    std::ostringstream text;  // of --help or --version
    const int status = app.exit(error, text, text);
    std::fputs(text.str().c_str(), stdout);
    return status;
  }
  report_error(ErrorCode::kUsage, fmt::format("{}; see {} --help", error.what(), command_name(app)), json);
  return exit_status(ErrorCode::kUsage);
}

int run_command(CLI::App& app, int argc, char** argv, CommandContext& context, const GlobalOptions& options) {
  const auto report = [&](ErrorCode code, const std::string& sentence) {
    report_error(code, sentence, options.json_errors);
    return exit_status(code);
  };
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      std::fputs(app.help().c_str(), stderr);
      return exit_status(ErrorCode::kUsage);
    }
    return context.exit_status;
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, options.json_errors);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) return report(error.code(), error.what());
    return report(error.code(), fmt::format("{}; see {} --help", error.what(), command_name(app)));
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::kInternal, "out of memory; free some or give the command a smaller limit");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return exit_status(ErrorCode::kIo);  // its reader has left
    return report(ErrorCode::kIo, error.what());
  } catch (const std::exception& error) {
    return report(ErrorCode::kInternal, fmt::format("{} (this is a bug in perigee)", error.what()));
  }
}

// A report that could not be written is a failure, even if the work went well.
int flush_output(int status, bool json) {
  if (status != kExitLossless && status != kExitLossy) return status;  // already reported
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  if (errno != EPIPE) {
    report_error(ErrorCode::kIo, "cannot write all of the output; is its disk full?", json);
  }
  return exit_status(ErrorCode::kIo);
}

int run_program(int argc, char** argv) {
  CLI::App app(kDescription, "perigee");
  app.require_subcommand(0, 1);
  app.fallthrough();  // global options may stand behind the command, too
  GlobalOptions options;
  add_global_options(app, options);

  CommandContext context{cancel_on_signals()};
  register_convert(app, context);
  register_verify(app, context);
  register_pack(app, context);
  register_unpack(app, context);
  register_inspect(app, context);
  register_synth(app, context);
  register_bench(app, context);
  register_tokenize(app, context);
  register_render(app, context);
  register_parse(app, context);
  register_parity(app, context);
  register_run(app, context);
  register_chat(app, context);
  register_serve(app, context);
  register_selfcheck(app, context);
  register_logits(app, context);
  register_doctor(app, context);
  app.footer(kFooter);  // last, because commands inherit the footer that they find
  return flush_output(run_command(app, argc, argv, context, options), options.json_errors);
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  return perigee::run_program(argc, argv);
}
