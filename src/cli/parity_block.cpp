// perigee parity block: runs one layer of a shard in every form and on every backend; the work is
// proof/block_parity.h.
#include "cli/parity_block.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/safetensors.h"
#include "cli/byte_streams.h"
#include "cli/model_options.h"
#include "cli/text_table.h"
#include "proof/block_parity.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(Examples:
  perigee parity block --shard K3/model-00013-of-000096.safetensors          one layer, cast to NVFP4 in memory
  perigee parity block --shard SHARD --against K3-NVFP4 --against K3-CT      and as converted on disk
  perigee parity block --shard K3 --layer 12 --json                          of a folder, for programs
A shard needs only config.json beside it; other shards need not exist. The layer runs whole (attention, router, experts,
norms) over fixed pseudo-random activations, a prompt and one token more, in every form and on every backend.
Exit status: 0 all outputs are the same bits, 1 one differs or the shard is damaged, 2 usage.)";

struct ParityBlockArguments {
  BlockParityOptions options;
  ModelOptions backend;
  double memory_gb = 0;
  bool json = false;
};

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

Json fingerprint_json(const Fingerprint& print) {
  return {{"name", print.name},
          {"dtype", dtype_name(print.dtype)},
          {"shape", print.shape},
          {"xxh3_64", hash_text(print.hash)}};
}

Json run_json(const BlockRun& run) {
  return {{"form", run.form},
          {"backend", run.backend},
          {"attention", hash_text(run.attention_hash)},
          {"experts", hash_text(run.experts_hash)},
          {"layer", hash_text(run.layer_hash)},
          {"prompt_seconds", run.prompt_seconds},
          {"decode_seconds", run.decode_seconds},
          {"equal", run.equal}};
}

std::string report_json(const BlockParity& parity, const BlockParityOptions& options) {
  Json runs = Json::array(), differences = Json::array(), prints = Json::array();
  for (const BlockRun& run : parity.runs) runs.push_back(run_json(run));
  for (const BlockDifference& difference : parity.differences)
    differences.push_back({{"form", difference.form}, {"what", difference.what}});
  for (const Fingerprint& print : parity.fingerprints) prints.push_back(fingerprint_json(print));
  const Json report = {{"equal", parity.equal()},
                       {"layer", parity.layer},
                       {"attention", parity.mla ? "mla" : "kda"},
                       {"precision", precision_name(options.precision)},
                       {"tokens", options.tokens},
                       {"experts", parity.experts},
                       {"chosen_experts", parity.chosen},
                       {"trunk_bytes", parity.trunk_bytes},
                       {"expert_bytes", parity.expert_bytes},
                       {"runs", runs},
                       {"differences", differences},
                       {"fingerprints", prints},
                       {"seconds", parity.seconds},
                       {"peak_memory_bytes", parity.peak_memory_bytes}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string fingerprints_text(const BlockParity& parity) {
  TextTable table({{"tensor"}, {"shape"}, {"type"}, {"XXH3-64 of its bytes"}});
  for (const Fingerprint& print : parity.fingerprints) {
    const std::size_t prefix = print.name.find("layers.");
    table.add_row({prefix == std::string::npos ? print.name : print.name.substr(prefix),
                   shape_text(print.shape), std::string(dtype_name(print.dtype)), hash_text(print.hash)});
  }
  return table.text();
}

std::string runs_text(const BlockParity& parity, std::size_t tokens) {
  TextTable table({{"weights"},
                   {"backend"},
                   {"attention"},
                   {"experts"},
                   {"layer"},
                   {fmt::format("{} token{}", tokens, plural(tokens)), Align::kRight},
                   {"1 more", Align::kRight},
                   {""}});
  for (const BlockRun& run : parity.runs) {
    table.add_row({run.form, run.backend, hash_text(run.attention_hash), hash_text(run.experts_hash),
                   hash_text(run.layer_hash), format_duration(run.prompt_seconds),
                   format_duration(run.decode_seconds), run.equal ? "" : "differs"});
  }
  return table.text();
}

std::string differences_text(const BlockParity& parity) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, parity.differences.size()); ++i)
    text += fmt::format("{}: {}\n", parity.differences[i].form, parity.differences[i].what);
  if (parity.differences.size() > kShown)
    text += fmt::format("and {} more, see --json\n", parity.differences.size() - kShown);
  return text.empty() ? text : "\n" + text;
}

std::string report_text(const BlockParity& parity, const BlockParityOptions& options) {
  return fmt::format(
      "Layer {} ({}), {} experts of {}, {} of other weights; {} experts were chosen for {} token{} and one "
      "more\n\n{}\n{}{}\n{}, {} of memory at most\n",
      parity.layer, parity.mla ? "MLA" : "KDA", with_commas(parity.experts),
      format_bytes(parity.expert_bytes), format_bytes(parity.trunk_bytes), parity.chosen.size(),
      options.tokens, plural(options.tokens), fingerprints_text(parity), runs_text(parity, options.tokens),
      differences_text(parity), format_duration(parity.seconds), format_bytes(parity.peak_memory_bytes));
}

[[noreturn]] void fail_different(const BlockParity& parity) {
  if (!parity.differences.empty()) {
    const BlockDifference& first = parity.differences.front();
    fail(ErrorCode::kMismatch, "layer {} is not the same in {}: {}", parity.layer, first.form, first.what);
  }
  if (parity.runs.size() < 2) {
    fail(ErrorCode::kUsage, "one run alone proves nothing; ask for more backends or give --against");
  }
  const auto differs = [](const BlockRun& run) { return !run.equal; };
  const auto run = std::find_if(parity.runs.begin(), parity.runs.end(), differs);
  fail(ErrorCode::kMismatch, "layer {} from {} on {} gives other outputs than from {} on {}", parity.layer,
       run->form, run->backend, parity.runs.front().form, parity.runs.front().backend);
}

void run_parity_block(const ParityBlockArguments& arguments, const CancelToken& cancel) {
  BlockParityOptions options = arguments.options;
  options.threads = arguments.backend.threads;
  options.precision = arguments.backend.precision;
  options.memory_limit_bytes = static_cast<std::uint64_t>(arguments.memory_gb * 1e9);
  if (!arguments.backend.backend.empty()) {
    options.backends = {arguments.backend.backend};
    make_ops({options.precision, 1, arguments.backend.backend});  // refuses a wrong name before reading
  }
  if (isatty(STDERR_FILENO) == 1)
    options.progress = [](const std::string& what) { fmt::print(stderr, "{} …\n", what); };
  const BlockParity parity = check_block_parity(options, cancel);
  write_output(arguments.json ? report_json(parity, options) : report_text(parity, options));
  if (!parity.equal()) fail_different(parity);
  if (!arguments.json) {
    write_output(fmt::format("All {} runs gave the same bits.\n", parity.runs.size()));
  }
}

}  // namespace

void register_parity_block(CLI::App& parity, CommandContext& context) {
  CLI::App& command =
      *parity.add_subcommand("block", "One layer of a real shard: MXFP4 and NVFP4 give the same bits");
  const auto arguments = std::make_shared<ParityBlockArguments>();
  BlockParityOptions& options = arguments->options;
  command
      .add_option("--shard", options.shard, "A shard file with config.json beside it, or a checkpoint folder")
      ->type_name("PATH")
      ->required();
  command.add_option("--against", options.against, "A conversion of it, shard or folder; may be repeated")
      ->type_name("PATH")
      ->expected(1)
      ->take_all();
  command.add_option("--layer", options.layer, "The layer, counted from 0 [the first with routed experts]")
      ->type_name("N");
  command.add_option("--tokens", options.tokens, "Tokens of the prompt; one more is decoded")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1024U));
  add_precision_option(command, arguments->backend);
  command.add_flag("--reference", options.reference,
                   "Also the scalar definition, which takes minutes at K3's size");
  command.add_option("--memory", arguments->memory_gb, "Refuse to need more, in GB [what is available]")
      ->type_name("GB")
      ->check(CLI::Range(0.001, 1e6));
  command.add_flag("--json", arguments->json, "Print JSON instead of tables");
  add_backend_options(command, arguments->backend);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_parity_block(*arguments, context.cancel); });
}

}  // namespace perigee
