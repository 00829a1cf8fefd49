// perigee parity logits: compares the forward pass with recorded values and prints a table; the work is
// proof/logits_parity.h.
#include "cli/parity_logits.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/byte_streams.h"
#include "cli/model_options.h"
#include "cli/text_table.h"
#include "proof/logits_parity.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(Examples:
  perigee parity logits GOLDEN                       every recorded value, on the fastest backend
  perigee parity logits GOLDEN --backend reference   on the definition
  perigee parity logits GOLDEN --json                for programs
GOLDEN holds a small checkpoint and what the released modelling code computes from it: golden.safetensors and golden.json.
Distances are relative L2, |ours - theirs| / |theirs|, or numbers of ids that differ. In float32 the whole model is compared;
in bf16 each module with its recorded input, and logits where rounding cannot change which experts are chosen.
Exit status: 0 all distances are within their bounds, 1 one is not.)";

struct ParityLogitsArguments {
  std::filesystem::path folder;
  ModelOptions model;
  bool json = false;
};

std::string distance_text(double distance) {
  return distance == 0 ? "0" : fmt::format("{:.1e}", distance);
}

std::string report_json(const LogitsParity& parity) {
  Json rows = Json::array();
  for (const LogitsParityRow& row : parity.rows) {
    rows.push_back({{"what", row.what},
                    {"count", row.count},
                    {"worst", row.worst},
                    {"bound", row.bound},
                    {"median", row.median},
                    {"median_bound", row.median_bound > 0 ? Json(row.median_bound) : Json()},
                    {"worst_at", row.worst_at},
                    {"ok", row.ok()}});
  }
  return Json({{"ok", parity.ok()}, {"rows", rows}, {"not_compared", parity.not_compared}}).dump(2) + "\n";
}

std::string report_text(const LogitsParity& parity) {
  TextTable table({{"what"},
                   {"compared", Align::kRight},
                   {"worst", Align::kRight},
                   {"bound", Align::kRight},
                   {"median", Align::kRight},
                   {"bound", Align::kRight},
                   {""}});
  for (const LogitsParityRow& row : parity.rows) {
    table.add_row({row.what, with_commas(row.count), distance_text(row.worst), distance_text(row.bound),
                   distance_text(row.median), row.median_bound > 0 ? distance_text(row.median_bound) : "",
                   row.ok() ? "ok" : "too far: " + row.worst_at});
  }
  std::string text = table.text();
  if (!parity.not_compared.empty()) {
    text += fmt::format("\n{} recorded values are not compared as they stand, e.g. {}.\n",
                        with_commas(parity.not_compared.size()), parity.not_compared.front());
  }
  return text;
}

void run_parity_logits(const ParityLogitsArguments& arguments, const CancelToken& cancel) {
  const auto make_backend = [&](Precision precision) {
    return make_ops({precision, arguments.model.threads, arguments.model.backend});
  };
  make_backend(Precision::kF32);  // refuses a wrong name before anything is loaded
  const LogitsParity parity = check_logits_parity(arguments.folder, make_backend, cancel);
  write_output(arguments.json ? report_json(parity) : report_text(parity));
  if (parity.ok()) return;
  std::size_t failed = 0;
  for (const LogitsParityRow& row : parity.rows) failed += row.ok() ? 0 : 1;
  if (parity.rows.empty())
    fail(ErrorCode::kMismatch, "{} holds nothing to compare", arguments.folder.string());
  fail(ErrorCode::kMismatch, "{} of {} kinds of value are further from {} than their bounds allow", failed,
       parity.rows.size(), arguments.folder.string());
}

}  // namespace

void register_parity_logits(CLI::App& parity, CommandContext& context) {
  CLI::App& command =
      *parity.add_subcommand("logits", "The forward pass: logits, inner values, states, tokens");
  const auto arguments = std::make_shared<ParityLogitsArguments>();
  command.add_option("DIR", arguments->folder, "Folder with a checkpoint and its recorded values")
      ->required();
  command.add_flag("--json", arguments->json, "Print JSON instead of a table");
  add_backend_options(command, arguments->model);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_parity_logits(*arguments, context.cancel); });
}

}  // namespace perigee
