// How a command plugs into the program: one file per command, each with a register_… function that main()
// calls. A command parses its options, calls the library and returns an exit status; it contains no logic of
// its own.
#pragma once

#include <CLI/CLI.hpp>

#include "base/cancel.h"

namespace perigee {

// Exit statuses that are not errors (errors: exit_status() in base/error.h).
inline constexpr int kExitLossless = 0;
inline constexpr int kExitLossy = 3;  // succeeded, but a value changed under an explicit policy

struct CommandContext {
  CancelToken& cancel;  // set by SIGINT and SIGTERM
  int exit_status = 0;  // what main() returns if no error is thrown
};

void register_synth(CLI::App& app, CommandContext& context);
void register_inspect(CLI::App& app, CommandContext& context);
void register_convert(CLI::App& app, CommandContext& context);
void register_verify(CLI::App& app, CommandContext& context);
void register_pack(CLI::App& app, CommandContext& context);
void register_unpack(CLI::App& app, CommandContext& context);
void register_bench(CLI::App& app, CommandContext& context);
void register_tokenize(CLI::App& app, CommandContext& context);
void register_render(CLI::App& app, CommandContext& context);
void register_parse(CLI::App& app, CommandContext& context);
void register_parity(CLI::App& app, CommandContext& context);
void register_run(CLI::App& app, CommandContext& context);
void register_selfcheck(CLI::App& app, CommandContext& context);
void register_logits(CLI::App& app, CommandContext& context);
void register_chat(CLI::App& app, CommandContext& context);
void register_serve(CLI::App& app, CommandContext& context);

}  // namespace perigee
