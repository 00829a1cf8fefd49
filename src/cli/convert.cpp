// perigee convert: options, the closing screen and the exit status; the work is convert/convert.h.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "convert/convert.h"
#include "convert/report.h"
#include "convert/selection.h"

namespace perigee {
namespace {

constexpr const char* kExamples = R"(Examples:
  perigee convert K3 K3-NVFP4                                  lossless, ModelOpt layout, for vLLM, SGLang, TensorRT-LLM
  perigee convert K3 K3-CT --layout compressed-tensors --activations none
  perigee convert K3 OUT --dry-run                             sizes and problems, without writing
  perigee convert K3 OUT --follow --delete-source              while the download runs, in little more than its own space
  perigee convert K3 OUT --rank 1 --world-size 4               one of four machines that share the folder OUT
  perigee convert K3-NVFP4 K3-again --layout mxfp4             back to the released form
An interrupted run is resumed by the same command. Exit status: 0 lossless, 3 lossy by an explicit choice, 1 failed, 2 usage.)";

struct ConvertArguments {
  ConvertOptions options;
  std::string report_file;
  double memory_gb = 0.336;
  bool dry_run = false;
  bool json = false;
};

void add_target_options(CLI::App& command, ConvertArguments& arguments) {
  ConvertOptions& options = arguments.options;
  add_choice(command, "--layout", options.layout,
             {{"modelopt", Layout::kModelOpt},
              {"compressed-tensors", Layout::kCompressedTensors},
              {"nvidia-mixed", Layout::kNvidiaMixed},
              {"mxfp4", Layout::kMxfp4}},
             "Tensor names and metadata to write");
  add_choice(command, "--activations", options.activations,
             {{"none", Activations::kNone}, {"placeholder", Activations::kPlaceholder}},
             "placeholder: input scales of 1.0, which most engines need; none: weight-only");
  add_choice(
      command, "--method", options.policy.method,
      {{"cast", Method::kCast}, {"requant", Method::kRequant}, {"requant-4over6", Method::kFourOverSix}},
      "cast: lossless; requant: the layout's own library's min-max rounding; requant-4over6: per "
      "block the better of two scales");
  add_choice(command, "--over-span", options.policy.over_span,
             {{"fail", OverSpan::kFail}, {"saturate", OverSpan::kSaturate}, {"requant", OverSpan::kRequant}},
             "When scales of one expert span more than 17 binades: fail; saturate: round only the blocks "
             "below; requant: round the whole expert");
  add_choice(command, "--nan-scale", options.policy.nan_scale,
             {{"fail", NanScale::kFail}, {"zero-groups-ok", NanScale::kZeroGroupsOk}},
             "When a scale byte is 0xFF: fail; zero-groups-ok: accept it over weights that are all zero");
  add_choice(command, "--kmax", options.policy.max_over,
             {{"active", MaxOver::kActiveGroups}, {"all-nonzero-bytes", MaxOver::kAllNonzeroBytes}},
             "Which blocks decide the shared exponent; all-nonzero-bytes gives ModelOpt's bytes");
  add_choice(command, "--inexact-scale", options.inexact_scale,
             {{"fail", InexactScale::kFail}, {"round", InexactScale::kRound}},
             "When another layout needs the reciprocal of a tensor scale that is no power of two");
  command.add_option_function<std::string>(
      "--shards",
      [&options](const std::string& text) { options.shards = parse_number_list(text, "--shards"); },
      "Only these source shards, e.g. 1-4,7 (an incomplete checkpoint)");
  command.add_option_function<std::string>(
      "--layers",
      [&options](const std::string& text) { options.layers = parse_number_list(text, "--layers"); },
      "Only shards that hold these layers, e.g. 3 or 0-11");
}

void add_running_options(CLI::App& command, ConvertArguments& arguments) {
  ConvertOptions& options = arguments.options;
  add_choice(command, "--verify", options.verify,
             {{"full", VerifyMode::kFull}, {"sample", VerifyMode::kSample}, {"none", VerifyMode::kNone}},
             "full: prove every block from disk before a shard gets its name; sample: 2 %; none");
  command
      .add_option("--jobs", options.jobs,
                  "Worker threads; 0 = one per CPU. No influence on the bytes written")
      ->default_str("0");
  command.add_option("--io-depth", options.io_depth, "Pieces being read at once")
      ->default_str("4")
      ->check(CLI::Range(1, 256));
  add_choice(command, "--io", options.io,
             {{"auto", IoBackend::kAuto}, {"io_uring", IoBackend::kUring}, {"threads", IoBackend::kThreads}},
             "How to talk to the disk");
  command.add_option("--memory", arguments.memory_gb, "Buffer memory in GB")
      ->default_str("0.336")
      ->check(CLI::Range(0.05, 1024.0));
  add_choice(command, "--resume-check", options.resume_check,
             {{"probe", ResumeCheck::kProbe}, {"full", ResumeCheck::kFull}},
             "How shards of an interrupted run are checked: probe: size and 64 places; full: SHA-256");
  command.add_flag("--resume", options.resume_only,
                   "Resume an interrupted run, which is the default; fail if there is none");
  command.add_flag("--overwrite", options.overwrite,
                   "Replace a checkpoint or journal that perigee made in OUT");
  command.add_flag("--follow", options.follow, "Convert each shard when its download is complete");
  command.add_flag("--delete-source", options.delete_source,
                   "Delete each source shard (and what it links to) after its own verification");
  command
      .add_option("--wait", options.wait_timeout_seconds,
                  "Give up after this many seconds without a new shard (--follow, rank 0)")
      ->default_str("3600");
  command.add_option("--rank", options.rank,
                     "Number of this process among several; rank 0 finishes the checkpoint");
  command.add_option("--world-size", options.world_size, "How many processes share the work");
  command.add_flag("--dry-run", arguments.dry_run, "Read headers, show what would be written, write nothing");
  command.add_option("--report", arguments.report_file,
                     "Also write the report with times as JSON to this file");
  command.add_flag("--json", arguments.json, "Report and progress as JSON");
}

void print_estimate(const ConvertArguments& arguments, const std::vector<ShardEstimate>& shards) {
  ShardEstimate total;
  for (const ShardEstimate& shard : shards) {
    total.source_bytes += shard.source_bytes;
    total.output_bytes += shard.output_bytes;
    total.output_tensors += shard.output_tensors;
    if (!arguments.json) {
      fmt::print("{:<44} {:>10} -> {:>10}  {:>7} tensors\n", shard.file_name,
                 format_bytes(shard.source_bytes), format_bytes(shard.output_bytes), shard.output_tensors);
    }
  }
  if (arguments.json) {
    fmt::print("{{\"shards\":{},\"source_bytes\":{},\"output_bytes\":{},\"tensors\":{}}}\n", shards.size(),
               total.source_bytes, total.output_bytes, total.output_tensors);
  } else {
    fmt::print("{} shards, {} -> {} ({} bytes), {} tensors; nothing was written\n", shards.size(),
               format_bytes(total.source_bytes), format_bytes(total.output_bytes), total.output_bytes,
               total.output_tensors);
  }
}

void print_line(const char* label, const std::string& value) {
  fmt::print("  {:<18}{}\n", label, value);
}

std::string actions_text(const ConversionReport& report) {
  std::string text;
  for (const auto& [action, count] : report.modules_by_action) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", with_commas(count), action);
  }
  return text;
}

void print_rates(const ConvertOutcome& outcome) {
  if (outcome.shards_converted == 0) return;
  const auto traffic = static_cast<double>(outcome.source_bytes_read + outcome.output_bytes_written);
  print_line("converted in",
             fmt::format("{}, {}/s read and written", format_duration(outcome.convert_seconds),
                         format_bytes(static_cast<std::uint64_t>(traffic / outcome.convert_seconds))));
  if (outcome.verify_seconds == 0) return;
  print_line("verified in",
             fmt::format("{}, {}/s read back", format_duration(outcome.verify_seconds),
                         format_bytes(static_cast<std::uint64_t>(traffic / outcome.verify_seconds))));
}

void print_error(const char* label, const ErrorSums& error) {
  if (error.elements == 0) return;
  print_line(label, fmt::format("relative RMSE {:.6f}, cosine {:.6f}, over {} weights", error.relative_rmse(),
                                error.cosine(), with_commas(error.elements)));
}

void print_report(const ConvertOptions& options, const ConvertOutcome& outcome) {
  const ConversionReport& report = outcome.report;
  fmt::print("{} -> {}\n", options.source.string(), options.output.string());
  print_line("layout",
             fmt::format("{}, activations {}, method {}", report.layout, report.activations, report.method));
  print_line("shards", fmt::format("{} ({} converted now, {} found finished)", report.shards,
                                   outcome.shards_converted, outcome.shards_resumed));
  print_line("tensors",
             fmt::format("{}, {} bytes", with_commas(report.tensors), with_commas(report.total_size)));
  print_line("expert modules", actions_text(report));
  print_line("blocks of 32", fmt::format("{}, values kept in {}", with_commas(report.groups),
                                         with_commas(report.groups_kept)));
  if (report.fp8_tensors > 0) print_line("FP8 tensors", with_commas(report.fp8_tensors));
  print_error("rounding error", report.expert_error);
  print_error("FP8 error", report.fp8_error);
  if (report.marlin_unsafe_blocks > 0) {
    print_line("run time",
               fmt::format("Marlin kernels would flush {} blocks of 16 to zero (scale below 2^-6)",
                           with_commas(report.marlin_unsafe_blocks)));
  }
  print_line("verification", report.verification);
  print_rates(outcome);
  fmt::print("{}{}\n", report.lossless() ? "LOSSLESS" : "LOSSY, as asked for",
             report.partial ? ", PARTIAL: only some shards were asked for" : "");
}

void print_outcome(const ConvertArguments& arguments, const ConvertOutcome& outcome) {
  if (!outcome.finalised && !outcome.already_complete) {
    fmt::print("rank {}: {} shards converted, {} found finished; rank 0 completes the checkpoint\n",
               arguments.options.rank, outcome.shards_converted, outcome.shards_resumed);
    return;
  }
  if (arguments.json) {
    fmt::print("{}", outcome_to_json(outcome));
    return;
  }
  if (outcome.already_complete) fmt::print("nothing to do, this conversion is complete already\n");
  print_report(arguments.options, outcome);
}

ConvertOutcome convert_resumably(const ConvertOptions& options) {
  try {
    return convert_checkpoint(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    fail(error.code(), "{}; run the same command again to resume", error.what());
  }
}

int run_convert(ConvertArguments& arguments) {
  ConvertOptions& options = arguments.options;
  if (!(arguments.memory_gb > 0))
    fail(ErrorCode::kUsage, "--memory {} must be a number of gigabytes", arguments.memory_gb);
  options.memory_bytes = static_cast<std::uint64_t>(arguments.memory_gb * 1e9);
  if (arguments.json) options.progress = ProgressStyle::kJson;
  if (arguments.dry_run) {
    print_estimate(arguments, estimate_conversion(options));
    return kExitLossless;
  }
  const ConvertOutcome outcome = convert_resumably(options);
  print_outcome(arguments, outcome);
  if (!arguments.report_file.empty()) write_file_atomically(arguments.report_file, outcome_to_json(outcome));
  return outcome.report.lossless() ? kExitLossless : kExitLossy;
}

}  // namespace

void register_convert(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("convert", "Convert MXFP4 experts to NVFP4, or transcode between layouts");
  const auto arguments = std::make_shared<ConvertArguments>();
  command->add_option("SRC", arguments->options.source, "Folder of the source checkpoint")->required();
  command->add_option("OUT", arguments->options.output, "Folder to write; empty, or of an interrupted run")
      ->required();
  add_target_options(*command, *arguments);
  add_running_options(*command, *arguments);
  command->footer(kExamples);
  command->callback([arguments, &context] {
    arguments->options.cancel = &context.cancel;
    context.exit_status = run_convert(*arguments);
  });
}

}  // namespace perigee
