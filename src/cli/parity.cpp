// perigee parity: compares the program with folders of expected values and prints a table; the work is
// proof/text_parity.h.
#include "proof/text_parity.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/byte_streams.h"
#include "cli/command.h"
#include "cli/parity_block.h"
#include "cli/parity_logits.h"
#include "cli/text_table.h"
#include "cli/vocabulary_option.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kParityExamples = R"(Examples:
  perigee parity text tests/data/text --vocab K3          tokenizer, prompts, tool calls, replies
  perigee parity logits GOLDEN                            the forward pass
  perigee parity block --shard K3/model-00013-of-000096.safetensors   one layer of one shard, MXFP4 and NVFP4
Exit status: 0 everything is equal or near enough, 1 something differs.)";

constexpr const char* kExamples = R"(Examples:
  perigee parity text tests/data/text --vocab K3          K3 is a folder with tiktoken.model
  perigee parity text goldens --vocab K3 --json           for programs
DIR holds tokenizer.json, prompts.json and chat/{tool_codec,reply_parser,reply_stream}.json, or some of them; their
fields are in docs/chat-format.md. Their ids belong to one vocabulary: give that one.
Exit status: 0 everything is equal, 1 something differs.)";

struct ParityArguments {
  std::filesystem::path folder;
  std::filesystem::path vocabulary;
  bool json = false;
};

Json difference_json(const ParityDifference& difference) {
  return {{"which", difference.which}, {"expected", difference.expected}, {"found", difference.found}};
}

std::string parity_json(const TextParity& parity) {
  Json rows = Json::array();
  for (const ParityRow& row : parity.rows) {
    rows.push_back({{"what", row.what},
                    {"cases", row.cases},
                    {"equal", row.equal},
                    {"first", row.first ? difference_json(*row.first) : Json()}});
  }
  const Json report = {{"equal", parity.equal()},
                       {"other_vocabulary", parity.other_vocabulary},
                       {"missing", parity.missing},
                       {"rows", rows}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string parity_text(const TextParity& parity) {
  TextTable table({{"what"}, {"cases", Align::kRight}, {"equal", Align::kRight}, {""}});
  std::string differences;
  for (const ParityRow& row : parity.rows) {
    table.add_row({row.what, with_commas(row.cases), with_commas(row.equal),
                   row.equal == row.cases ? "" : with_commas(row.cases - row.equal) + " differ"});
    if (!row.first || parity.other_vocabulary) continue;  // then they differ everywhere
    differences += fmt::format("\n{}, first difference: {}\n  expected  {}\n  found     {}\n", row.what,
                               row.first->which, row.first->expected, row.first->found);
  }
  std::string text = table.text();
  for (const std::string& file : parity.missing) text += fmt::format("not there: {}\n", file);
  return text + differences;
}

struct Totals {
  std::size_t cases = 0, equal = 0;
};

Totals totals_of(const TextParity& parity) {
  Totals totals;
  for (const ParityRow& row : parity.rows) {
    totals.cases += row.cases;
    totals.equal += row.equal;
  }
  return totals;
}

void run_text(const ParityArguments& arguments) {
  const Tokenizer tokenizer = load_tokenizer(arguments.vocabulary);
  const TextParity parity = check_text_parity(arguments.folder, tokenizer);
  const Totals totals = totals_of(parity);
  write_output(arguments.json ? parity_json(parity) : parity_text(parity));
  if (parity.equal()) {
    if (!arguments.json)
      write_output(fmt::format("\nAll {} comparisons are equal.\n", with_commas(totals.cases)));
    return;
  }
  if (parity.other_vocabulary) {
    fail(ErrorCode::kMismatch,
         "the ids in {} belong to another vocabulary than this one of {} tokens, so its rows of ids mean "
         "nothing; "
         "give the vocabulary they were made with by --vocab",
         arguments.folder.string(), with_commas(tokenizer.vocabulary().size()));
  }
  if (totals.cases == 0) fail(ErrorCode::kMismatch, "{} holds no case at all", arguments.folder.string());
  fail(ErrorCode::kMismatch, "{} of {} comparisons with {} differ", with_commas(totals.cases - totals.equal),
       with_commas(totals.cases), arguments.folder.string());
}

}  // namespace

void register_parity(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("parity", "Compare this program with expected values");
  command.require_subcommand(1);
  command.footer(kParityExamples);
  CLI::App& text = *command.add_subcommand("text", "Tokenizer, prompts, tools, replies and streams");
  const auto arguments = std::make_shared<ParityArguments>();
  text.add_option("DIR", arguments->folder, "Folder of expected values")->required();
  add_vocabulary_option(text, arguments->vocabulary);
  text.add_flag("--json", arguments->json, "Print JSON instead of a table");
  text.footer(kExamples);
  text.callback([arguments] { run_text(*arguments); });
  register_parity_logits(command, context);
  register_parity_block(command, context);
}

}  // namespace perigee
