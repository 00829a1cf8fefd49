// perigee selfcheck: shows that a model gives one hash on everything that this machine can run it with; the
// work is proof/selfcheck.h.
#include "proof/selfcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/byte_streams.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(Examples:
  perigee selfcheck -m CKPT                              every backend, 1 to all threads, three cycles
  perigee selfcheck -m CKPT --backend avx2 --threads 8   one backend, 1 to 8 threads
  perigee selfcheck -m CKPT --cycles 1 --json            for programs
Every run reads the same question and adds greedy tokens; cycles cut the prompt differently. The most likely token and the
hash of all float32 logits must be the same in every row. A checkpoint without a usable vocabulary is given fixed ids.
Exit status: 0 all rows are equal, 1 one differs.)";

struct SelfcheckArguments {
  ModelOptions model;
  SelfcheckOptions options;
  bool json = false;
};

struct ControlPrompt {
  std::vector<TokenId> ids;
  std::optional<Tokenizer> tokenizer;  // unset: the ids are fixed ones
};

ControlPrompt make_prompt(const ModelOptions& options) {
  const K3Config config = load_config(options.checkpoint / "config.json");
  ControlPrompt prompt;
  try {
    prompt.tokenizer = find_model_tokenizer(options);
  } catch (const Error&) {  // a synthetic checkpoint has a file by that name that is no vocabulary
    if (!options.vocabulary.empty()) throw;
  }
  if (prompt.tokenizer) check_vocabulary_fits(*prompt.tokenizer, config);
  prompt.ids = prompt.tokenizer ? control_prompt(*prompt.tokenizer) : control_ids(config);
  return prompt;
}

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::string report_json(const Selfcheck& check, const ControlPrompt& prompt, const ModelOptions& options) {
  Json rows = Json::array();
  for (const SelfcheckRow& row : check.rows) {
    rows.push_back({{"cycle", row.cycle},
                    {"backend", row.backend},
                    {"threads", row.threads},
                    {"prompt_chunk", row.prompt_chunk},
                    {"top", row.top},
                    {"logits_hash", hash_text(row.logits_hash)},
                    {"seconds", row.seconds},
                    {"equal", row.equal}});
  }
  const Json report = {{"equal", check.equal()},
                       {"precision", precision_name(options.precision)},
                       {"prompt", prompt.tokenizer ? "question" : "fixed ids"},
                       {"prompt_ids", prompt.ids.size()},
                       {"rows", rows}};
  return report.dump(2) + "\n";
}

std::string report_text(const Selfcheck& check, const ControlPrompt& prompt) {
  TextTable table({{"cycle", Align::kRight},
                   {"backend"},
                   {"threads", Align::kRight},
                   {"cut", Align::kRight},
                   {"top-1", Align::kRight},
                   {"logits"},
                   {"time", Align::kRight},
                   {""}});
  for (const SelfcheckRow& row : check.rows) {
    table.add_row({std::to_string(row.cycle), row.backend, std::to_string(row.threads),
                   std::to_string(row.prompt_chunk), std::to_string(row.top), hash_text(row.logits_hash),
                   format_duration(row.seconds), row.equal ? "" : "differs"});
  }
  return fmt::format("{} of {} ids\n\n{}",
                     prompt.tokenizer ? "A question" : "No usable vocabulary, so a prompt of fixed ids",
                     prompt.ids.size(), table.text());
}

void run_selfcheck_command(const SelfcheckArguments& arguments, const CancelToken& cancel) {
  SelfcheckOptions options = arguments.options;
  options.precision = arguments.model.precision;
  options.most_threads = arguments.model.threads;
  if (!arguments.model.backend.empty()) {
    options.backends = {arguments.model.backend};
    make_ops({options.precision, 1, arguments.model.backend});  // refuses a wrong name before loading
  }
  const ControlPrompt prompt = make_prompt(arguments.model);
  const LoadedModel weights = load_weights(arguments.model, cancel);
  const Selfcheck check = run_selfcheck(weights, prompt.ids, options, cancel);
  write_output(arguments.json ? report_json(check, prompt, arguments.model) : report_text(check, prompt));
  if (check.rows.size() < 2) {
    fail(ErrorCode::kUsage, "one run alone proves nothing; ask for more cycles, threads or backends");
  }
  if (!check.equal()) {
    const auto differing = std::count_if(check.rows.begin(), check.rows.end(),
                                         [](const SelfcheckRow& row) { return !row.equal; });
    fail(ErrorCode::kMismatch, "{} of {} runs gave other logits than the first one", differing,
         check.rows.size());
  }
  if (!arguments.json) write_output(fmt::format("\nAll {} runs gave the same bits.\n", check.rows.size()));
}

}  // namespace

void register_selfcheck(CLI::App& app, CommandContext& context) {
  CLI::App& command =
      *app.add_subcommand("selfcheck", "Show that every backend and thread count gives the same logits");
  const auto arguments = std::make_shared<SelfcheckArguments>();
  add_model_option(command, arguments->model);
  command.add_option("--cycles", arguments->options.cycles, "How often everything is repeated")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1000U));
  command.add_option("--tokens", arguments->options.tokens, "Greedy tokens of each run")
      ->capture_default_str()
      ->check(CLI::Range(1U, 100000U));
  command.add_flag("--json", arguments->json, "Print JSON instead of a table");
  add_model_vocabulary_option(command, arguments->model);
  add_backend_options(command, arguments->model);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_selfcheck_command(*arguments, context.cancel); });
}

}  // namespace perigee
