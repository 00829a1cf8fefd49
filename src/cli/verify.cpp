// perigee verify: options, one screen for people, JSON for programs, the exit status; the work is
// verify/verify.h.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "cli/verify_store.h"
#include "experts/expert_files.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace perigee {
namespace {

constexpr const char* kExamples = R"(Examples:
  perigee verify K3 K3-NVFP4                       every byte of both, and the metadata
  perigee verify K3 nvidia/Kimi-K3-NVFP4           somebody else's conversion
  perigee verify K3 K3-NVFP4 --sample 2%           a quick look
  perigee verify K3 K3-NVFP4 --json report.json --modules modules.jsonl
  perigee verify K3 STORE                          a store of perigee pack against its checkpoint
  perigee verify STORE                             a store against its own checksums
Exit status: 0 lossless, 3 valid but values were rounded, 1 failed, 2 usage.)";

struct VerifyArguments {
  std::filesystem::path source, output;
  VerifyOptions options;
  std::string sample;
  std::string json, modules;
  double memory_gb = 0.4;
  bool no_sha256 = false;
  bool decode_all = false;
};

// "2%" is a share, "100" a number of experts.
void parse_sample(const std::string& text, VerifyOptions& options) {
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const bool is_share = used > 0 && text.substr(used) == "%";
  if (used == 0 || !(number > 0) || (!is_share && used != text.size()) || (is_share && number > 100)) {
    fail(ErrorCode::kUsage, "--sample {}: must be a number of experts such as 100 or a share such as 2%",
         text);
  }
  if (is_share) {
    options.sample_fraction = number / 100;
  } else {
    options.sample_experts = static_cast<std::uint64_t>(number);
    if (options.sample_experts == 0) options.sample_experts = 1;
  }
}

std::string rounding_cell(const VerifiedTotals& totals) {
  return totals.changed_modules == 0 ? std::string("0") : fmt::format("{:.6f}", totals.error.relative_rmse());
}

std::string cosine_cell(const VerifiedTotals& totals) {
  return totals.changed_modules == 0 ? std::string("1") : fmt::format("{:.9f}", totals.error.cosine());
}

std::string projection_table(const VerifyReport& report) {
  TextTable table({{"experts"},
                   {"modules", Align::kRight},
                   {"blocks of 16", Align::kRight},
                   {"equal", Align::kRight},
                   {"rescaled", Align::kRight},
                   {"changed", Align::kRight},
                   {"relative RMSE", Align::kRight},
                   {"cosine", Align::kRight}});
  const auto add = [&table](const std::string& name, const VerifiedTotals& totals) {
    const std::uint64_t blocks = totals.equal_blocks16 + totals.rescaled_blocks16 + totals.changed_blocks16;
    table.add_row({name, with_commas(totals.modules), with_commas(blocks), with_commas(totals.equal_blocks16),
                   with_commas(totals.rescaled_blocks16), with_commas(totals.changed_blocks16),
                   rounding_cell(totals), cosine_cell(totals)});
  };
  for (const auto& [projection, totals] : report.by_projection) add(fmt::format("w{}", projection), totals);
  table.add_rule();
  add("all", report.total);
  return table.text();
}

void print_line(const char* label, const std::string& value) {
  fmt::print("  {:<18}{}\n", label, value);
}

std::string span_text(const VerifiedTotals& totals) {
  if (!totals.max_exponent) return "all blocks are zero";
  std::size_t widest = 0;
  for (std::size_t d = 0; d < totals.span.active_by_distance.size(); ++d) {
    if (totals.span.active_by_distance[d] > 0) widest = d;
  }
  return fmt::format(
      "powers 2^{} to 2^{}, {} binades below a shared maximum at most{}", *totals.min_exponent,
      *totals.max_exponent, totals.span.beyond > 0 ? std::string("more than 17") : std::to_string(widest),
      totals.span.beyond > 0 ? fmt::format(" ({} blocks)", with_commas(totals.span.beyond)) : "");
}

void print_facts(const VerifyReport& report) {
  std::uint64_t copied = 0, copied_bytes = 0, read = 0;
  for (const ShardVerification& shard : report.shards) {
    copied += shard.copied_tensors;
    copied_bytes += shard.copied_bytes;
    read += shard.bytes_read;
  }
  print_line("experts", fmt::format("{} -> {}", expert_format_name(report.source_format),
                                    expert_format_name(report.output_format)));
  print_line("files", fmt::format("{}, source shards {} of {}", report.shards.size(),
                                  report.source_shards - report.source_shards_absent, report.source_shards));
  print_line("copied tensors",
             fmt::format("{}, {} compared byte for byte", with_commas(copied), format_bytes(copied_bytes)));
  if (report.fp8_tensors > 0) {
    print_line("FP8 tensors", fmt::format("{}, relative RMSE {:.6f}, cosine {:.9f}", report.fp8_tensors,
                                          report.fp8.relative_rmse(), report.fp8.cosine()));
  }
  if (report.total.modules > 0) {
    print_line("scales", span_text(report.total));
    print_line("zero blocks", with_commas(report.total.zero_blocks));
    print_line("-0 nibbles",
               fmt::format("{}, of them {} became 0", with_commas(report.total.source_negative_zeros),
                           with_commas(report.total.normalised_negative_zeros)));
    print_line("decoded blocks", fmt::format("{} compared as numbers, largest error {:g}, {} NaN",
                                             with_commas(report.total.decoded_blocks16),
                                             report.total.error.max_abs_error, report.total.nan_values));
  }
  if (report.checksums_compared) print_line("SHA256SUMS", "all lines compared");
  print_line("read", fmt::format("{} in {}, {}/s", format_bytes(read), format_duration(report.seconds),
                                 format_bytes(static_cast<std::uint64_t>(static_cast<double>(read) /
                                                                         std::max(report.seconds, 1e-9)))));
}

std::string verdict_line(const VerifyReport& report) {
  std::string line;
  switch (report.verdict) {
    case Verdict::kLossless:
      line = "LOSSLESS: every value is the source's";
      break;
    case Verdict::kLossy:
      line = "LOSSY: valid, but values were rounded";
      break;
    case Verdict::kFailed:
      line = fmt::format("FAILED: {} failure{}", report.failures.count, plural(report.failures.count));
      break;
  }
  if (report.partial()) {
    line += fmt::format("; PARTIAL: {} of {} source shards are not there", report.source_shards_absent,
                        report.source_shards);
  }
  if (report.sampled) line += "; only a SAMPLE was read";
  return line;
}

void print_screen(const VerifyReport& report) {
  fmt::print("{} -> {}\n", report.source.string(), report.output.string());
  print_facts(report);
  if (report.total.modules > 0) fmt::print("\n{}", projection_table(report));
  if (!report.warnings.empty()) fmt::print("\n");
  for (const std::string& warning : report.warnings) fmt::print("warning: {}\n", warning);
  if (report.failures.count > 0) fmt::print("\n");
  for (const VerifyFailure& failure : report.failures.kept)
    fmt::print("failure ({}): {}\n", failure.check, failure.message);
  if (report.failures.count > report.failures.kept.size()) {
    fmt::print("… and {} more\n", report.failures.count - report.failures.kept.size());
  }
  fmt::print("\n{}\n", verdict_line(report));
}

void write_modules(const VerifyReport& report, const std::string& path) {
  std::ofstream out(path);
  write_module_lines(report, out);
  out.flush();
  if (!out) fail(ErrorCode::kIo, "cannot write {}", path);
}

// Nothing if neither folder is a store.
std::optional<int> run_if_store(const VerifyArguments& arguments) {
  const bool alone = arguments.output.empty();
  const std::filesystem::path& store = alone ? arguments.source : arguments.output;
  if (!is_store(store)) return std::nullopt;
  WorkOptions work;
  work.jobs = arguments.options.workers;
  work.io_depth = arguments.options.io_depth;
  work.io = arguments.options.backend;
  work.memory_bytes = static_cast<std::uint64_t>(arguments.memory_gb * 1e9);
  work.cancel = arguments.options.cancel;
  const std::optional<std::filesystem::path> source = alone ? std::nullopt : std::optional(arguments.source);
  return run_verify_store(store, source, work, arguments.json);
}

int run_verify(VerifyArguments& arguments) {
  if (const std::optional<int> status = run_if_store(arguments)) return *status;
  if (arguments.output.empty()) {
    fail(ErrorCode::kUsage, "{} is no store of perigee pack; give the converted checkpoint as well",
         arguments.source.string());
  }
  VerifyOptions& options = arguments.options;
  if (!arguments.sample.empty()) parse_sample(arguments.sample, options);
  options.memory_bytes = static_cast<std::uint64_t>(arguments.memory_gb * 1e9);
  options.hash = !arguments.no_sha256;
  if (arguments.decode_all) options.decode_every = 1;
  options.progress = ProgressStyle::kAuto;
  const VerifyReport report = verify_checkpoint(arguments.source, arguments.output, options);
  if (!arguments.modules.empty()) write_modules(report, arguments.modules);
  const auto json = [&report] {
    return verify_report_json(report).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
           "\n";
  };
  if (arguments.json == "-") {
    fmt::print("{}", json());
  } else {
    if (!arguments.json.empty()) write_file_atomically(arguments.json, json());
    print_screen(report);
  }
  if (report.verdict == Verdict::kFailed) return exit_status(ErrorCode::kMismatch);
  return report.verdict == Verdict::kLossy ? kExitLossy : kExitLossless;
}

}  // namespace

void register_verify(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("verify", "Prove a converted checkpoint from the bytes on disk");
  const auto arguments = std::make_shared<VerifyArguments>();
  VerifyOptions& options = arguments->options;
  options.cancel = &context.cancel;
  command.add_option("SRC", arguments->source, "The checkpoint that was converted; or a store alone")
      ->required();
  command.add_option("OUT", arguments->output,
                     "What it became: a checkpoint in any known layout, or a store");
  command
      .add_option(
          "--sample", arguments->sample,
          "Only a share (2%) or a number (100) of the experts, and as much of the rest; the same each time")
      ->type_name("N|N%");
  command.add_flag("--no-sha256", arguments->no_sha256, "Do not hash the files");
  command.add_flag("--decode-all", arguments->decode_all,
                   "Also compare every block as numbers, not only one in 61; slower, proves nothing more");
  command.add_option("--json", arguments->json, "Write the report to this file; - for standard output")
      ->type_name("FILE");
  command
      .add_option("--modules", arguments->modules, "Write one line of JSON per expert module to this file")
      ->type_name("FILE");
  command.add_option("--max-failures", options.max_failures, "How many failures are shown with their place")
      ->default_str("20");
  command.add_option("--jobs", options.workers, "Worker threads; 0 = one per CPU")->default_str("0");
  command.add_option("--io-depth", options.io_depth, "Pieces being read at once")
      ->default_str("4")
      ->check(CLI::Range(1, 256));
  add_choice(command, "--io", options.backend,
             {{"auto", IoBackend::kAuto}, {"io_uring", IoBackend::kUring}, {"threads", IoBackend::kThreads}},
             "How to talk to the disk");
  command.add_option("--memory", arguments->memory_gb, "Buffer memory in GB")
      ->default_str("0.4")
      ->check(CLI::Range(0.05, 1024.0));
  command.footer(kExamples);
  command.callback([arguments, &context] { context.exit_status = run_verify(*arguments); });
}

}  // namespace perigee
