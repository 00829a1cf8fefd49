// perigee pack and perigee unpack: options, the closing screen and the exit status; the work is pack/pack.h
// and pack/unpack.h.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "pack/pack.h"
#include "pack/unpack.h"

namespace perigee {
namespace {

using nlohmann::ordered_json;

constexpr const char* kPackExamples = R"(Examples:
  perigee pack K3 STORE                                        everything exact: one aligned record per expert
  perigee pack K3 STORE --dry-run                              sizes, without writing
  perigee pack K3 STORE --attention fp8 --head fp8             a smaller trunk; prints what the rounding did
  perigee pack K3 STORE --stripe /nvme0/k3,/nvme1/k3=2         records on two disks, the second gets twice as many
  perigee pack K3 STORE --link                                 experts stay in the checkpoint
  perigee pack K3 STORE --delete-source                        in little more than the checkpoint's own space
  perigee verify K3 STORE                                      every byte against the checkpoint
An interrupted run is resumed by the same command. Exit status: 0 exact, 3 planes were rounded as asked, 1 failed, 2 usage.)";

constexpr const char* kUnpackExamples = R"(Examples:
  perigee unpack STORE K3                                      the shards that the store was made from, byte for byte)";

struct PackArguments {
  PackOptions options;
  std::string stripe;
  double memory_gb = 0.336;
  bool dry_run = false;
  bool json = false;
};

// "/a,/b=2": a weight behind the last "=" of a folder.
std::vector<Stripe> parse_stripes(const std::string& text) {
  std::vector<Stripe> stripes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    Stripe stripe;
    const std::size_t equals = part.rfind('=');
    stripe.folder = part.substr(0, equals);
    if (equals != std::string::npos) {
      const std::string weight = part.substr(equals + 1);
      char* rest = nullptr;
      stripe.weight = std::strtod(weight.c_str(), &rest);
      if (weight.empty() || *rest != '\0' || !(stripe.weight > 0) || stripe.weight > 1e6) {
        fail(ErrorCode::kUsage, "--stripe {}: the weight behind = must be a number above 0", part);
      }
    }
    if (stripe.folder.empty()) {
      fail(ErrorCode::kUsage,
           "--stripe {}: must be folders with commas between them, each with =WEIGHT or "
           "without",
           text);
    }
    stripes.push_back(std::move(stripe));
  }
  return stripes;
}

std::string rate_text(std::uint64_t bytes, double seconds) {
  return format_bytes(static_cast<std::uint64_t>(static_cast<double>(bytes) / std::max(seconds, 1e-9))) +
         "/s";
}

std::string plane_table(const PlaneTable& planes, const PlaneFormats& formats, bool measured) {
  TextTable table({{"plane"},
                   {"form"},
                   {"matrices", Align::kRight},
                   {"rounded", Align::kRight},
                   {"in the checkpoint", Align::kRight},
                   {"in the store", Align::kRight},
                   {"relative RMSE", Align::kRight}});
  for (const auto& [plane, sums] : planes) {
    const PlaneFormat format = formats[static_cast<std::size_t>(plane)];
    const bool is_exact = sums.rounded == 0;
    table.add_row({plane_name(plane), plane_format_name(format), with_commas(sums.tensors),
                   with_commas(sums.rounded), format_bytes(sums.source_bytes),
                   format_bytes(sums.stored_bytes),
                   is_exact   ? "0"
                   : measured ? fmt::format("{:.6f}", sums.error.relative_rmse())
                              : "?"});
  }
  return table.text();
}

int print_estimate(const PackArguments& arguments) {
  const PackEstimate estimate = estimate_pack(arguments.options);
  if (arguments.json) {
    ordered_json folders = ordered_json::array();
    for (const PackEstimate::Folder& folder : estimate.folders) {
      folders.push_back(
          {{"path", folder.path.string()}, {"needed", folder.needed}, {"available", folder.available}});
    }
    const ordered_json document = {
        {"experts", estimate.experts},           {"record_bytes", estimate.record_bytes},
        {"expert_bytes", estimate.expert_bytes}, {"trunk_bytes", estimate.trunk_bytes},
        {"source_bytes", estimate.source_bytes}, {"folders", std::move(folders)}};
    fmt::print("{}\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace));
    return kExitLossless;
  }
  fmt::print("experts  {} records of {} bytes, {}\n", with_commas(estimate.experts),
             with_commas(estimate.record_bytes), format_bytes(estimate.expert_bytes));
  fmt::print("trunk    {}\n\n", format_bytes(estimate.trunk_bytes));
  fmt::print("{}\n", plane_table(estimate.planes, arguments.options.planes, false));
  for (const PackEstimate::Folder& folder : estimate.folders) {
    fmt::print("{}: needs {}, {} free\n", folder.path.string(), format_bytes(folder.needed),
               format_bytes(folder.available));
  }
  return kExitLossless;
}

void print_outcome(const PackOutcome& outcome, const PackOptions& options) {
  const StoreReport& report = outcome.report;
  if (outcome.already_complete) {
    fmt::print("{} is complete already\n", options.store.string());
  } else {
    fmt::print("read {}, wrote {} in {} ({} of both, read-back included); {} of {} parts were there\n",
               format_bytes(outcome.source_bytes_read), format_bytes(outcome.store_bytes_written),
               format_duration(outcome.seconds),
               rate_text(outcome.source_bytes_read + outcome.store_bytes_written, outcome.seconds),
               outcome.items_resumed, outcome.items);
  }
  fmt::print("{} experts {} {}, {}\n\n", with_commas(report.experts), report.expert_format,
             report.linked ? "in the checkpoint" : "in records", format_bytes(report.expert_bytes));
  fmt::print("{}\n", plane_table(report.planes, options.planes, true));
  fmt::print("{}\n", report.is_lossless() ? "EXACT: every value is the checkpoint's"
                                          : "ROUNDED: planes of the trunk, as asked; experts are exact");
}

int run_pack(PackArguments& arguments) {
  PackOptions& options = arguments.options;
  if (!arguments.stripe.empty()) options.stripes = parse_stripes(arguments.stripe);
  options.work.memory_bytes = static_cast<std::uint64_t>(arguments.memory_gb * 1e9);
  if (arguments.dry_run) return print_estimate(arguments);
  const PackOutcome outcome = pack_checkpoint(options);
  if (arguments.json) {
    ordered_json document = ordered_json::parse(store_report_to_json(outcome.report));
    document["run"] = {{"already_complete", outcome.already_complete},
                       {"items", outcome.items},
                       {"items_resumed", outcome.items_resumed},
                       {"source_bytes_read", outcome.source_bytes_read},
                       {"store_bytes_written", outcome.store_bytes_written},
                       {"seconds", outcome.seconds}};
    fmt::print("{}\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    print_outcome(outcome, options);
  }
  return outcome.report.is_lossless() ? kExitLossless : kExitLossy;
}

void add_work_options(CLI::App& command, WorkOptions& work, double& memory_gb) {
  command.add_option("--jobs", work.jobs, "Worker threads; 0 = one per CPU")->default_str("0");
  command.add_option("--io-depth", work.io_depth, "Pieces being read at once")
      ->default_str("4")
      ->check(CLI::Range(1, 256));
  add_choice(command, "--io", work.io,
             {{"auto", IoBackend::kAuto}, {"io_uring", IoBackend::kUring}, {"threads", IoBackend::kThreads}},
             "How to talk to the disk");
  command.add_option("--memory", memory_gb, "Buffer memory in GB")
      ->default_str("0.336")
      ->check(CLI::Range(0.05, 1024.0));
  add_choice(command, "--progress", work.progress,
             {{"auto", ProgressStyle::kAuto},
              {"off", ProgressStyle::kOff},
              {"terminal", ProgressStyle::kTerminal},
              {"json", ProgressStyle::kJson}},
             "Progress on standard error");
}

void add_plane_options(CLI::App& command, PackOptions& options) {
  const std::vector<std::pair<std::string, PlaneFormat>> words = {
      {"bf16", PlaneFormat::kBf16}, {"fp8", PlaneFormat::kFp8}, {"nvfp4", PlaneFormat::kNvfp4}};
  const auto add = [&](Plane plane, const char* help) {
    add_choice(command, fmt::format("--{}", plane_name(plane)),
               options.planes[static_cast<std::size_t>(plane)], words, help);
  };
  add(Plane::kAttention, "Projections of the attention: bf16 as they are, or rounded");
  add(Plane::kShared, "Shared experts");
  add(Plane::kLatent, "Projections into the experts' latent space and out of it");
  add(Plane::kHead, "lm_head");
}

}  // namespace

void register_pack(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("pack", "Make the running form of a checkpoint");
  const auto arguments = std::make_shared<PackArguments>();
  PackOptions& options = arguments->options;
  command.add_option("CKPT", options.source, "The released checkpoint, or a conversion of it")->required();
  command.add_option("STORE", options.store, "Folder to write; empty, or of an interrupted run")->required();
  add_plane_options(command, options);
  command
      .add_option("--stripe", arguments->stripe,
                  "Folders for the experts' records, as on several disks; without a weight as measured")
      ->type_name("DIR[=WEIGHT],…");
  command.add_flag("--link", options.link, "Leave the experts in the checkpoint; write trunk and index only");
  command.add_flag("--delete-source", options.delete_source,
                   "Delete each shard of the checkpoint as soon as all of it is verified and synced");
  add_choice(command, "--resume-check", options.resume_check,
             {{"probe", ResumeCheck::kProbe}, {"full", ResumeCheck::kFull}},
             "How an interrupted run's parts are looked at: samples, or every checksum");
  command.add_flag("--dry-run", arguments->dry_run, "Only say how large everything will be");
  command.add_flag("--json", arguments->json, "Print the report as JSON");
  add_work_options(command, options.work, arguments->memory_gb);
  command.footer(kPackExamples);
  command.callback([arguments, &context] {
    arguments->options.work.cancel = &context.cancel;
    context.exit_status = run_pack(*arguments);
  });
}

void register_unpack(CLI::App& app, CommandContext& context) {
  struct Arguments {
    std::filesystem::path store, output;
    WorkOptions work;
    double memory_gb = 0.336;
  };
  CLI::App& command = *app.add_subcommand("unpack", "Give back the checkpoint that a store was made from");
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("STORE", arguments->store, "A store of perigee pack")->required();
  command.add_option("OUT", arguments->output, "Folder to write: empty, or what an interrupted unpack left")
      ->required();
  add_work_options(command, arguments->work, arguments->memory_gb);
  command.footer(kUnpackExamples);
  command.callback([arguments, &context] {
    arguments->work.cancel = &context.cancel;
    arguments->work.memory_bytes = static_cast<std::uint64_t>(arguments->memory_gb * 1e9);
    const UnpackOutcome outcome = unpack_store(arguments->store, arguments->output, arguments->work);
    if (outcome.already_complete) {
      fmt::print("{} holds all {} shards already, as their sizes and headers say\n",
                 arguments->output.string(), outcome.shards);
      return;
    }
    const std::string before =
        outcome.resumed > 0 ? fmt::format(", {} of them by an earlier run", outcome.resumed) : "";
    fmt::print("{} shards, {} in {}, read back{}\n", outcome.shards, format_bytes(outcome.bytes),
               format_duration(outcome.seconds), before);
  });
}

}  // namespace perigee
