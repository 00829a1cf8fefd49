// `perigee inspect`: what is in a checkpoint, one tensor's blocks, what conversion would need, how far apart
// the scales lie.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/inspect_running.h"
#include "cli/inspect_views.h"
#include "experts/expert_files.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr double kMeasureSeconds = 0.8;

struct InspectOptions {
  fs::path checkpoint;
  BlockRequest block;
  bool plan = false;
  bool spans = false;
  bool exact = false;
  bool all_findings = false;
  bool json = false;
  bool no_rate = false;
  fs::path out;
  double rate = 0;  // bytes per second
  unsigned jobs = 0;
  RunningOptions running;
};

// CLI11 wraps negative numbers around and has no short words for a range.
std::string must_not_be_negative(const std::string& text) {
  return text.starts_with('-') ? text + " is negative" : std::string();
}
std::string must_be_positive(const std::string& number) {
  return std::strtod(number.c_str(), nullptr) > 0 ? std::string() : "the speed must be above zero";
}

void print(const InspectOptions& options, const Json& json, const std::string& text) {
  const std::string output =
      options.json ? json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : text;
  std::fwrite(output.data(), 1, output.size(), stdout);
}

void inspect_overview(const InspectOptions& options) {
  constexpr std::size_t kFindingsShown = 10;
  const CheckpointOverview overview = survey_checkpoint(options.checkpoint);
  const std::string path = options.checkpoint.string();
  print(options, overview_json(path, overview),
        overview_text(path, overview, options.all_findings ? SIZE_MAX : kFindingsShown));
}

void inspect_blocks(const InspectOptions& options) {
  const BlockView view = view_blocks(options.checkpoint, options.block);
  print(options, blocks_json(view), blocks_text(view));
}

// The index is optional: config.json alone describes the released placement.
std::optional<CheckpointIndex> index_if_there(const fs::path& checkpoint) {
  if (!fs::exists(checkpoint / kIndexFileName)) return std::nullopt;
  return load_index(checkpoint / kIndexFileName);
}

RunningView view_running(const InspectOptions& options, const ModelSizes& sizes, const CancelToken& cancel) {
  const std::optional<double> rate = options.rate > 0 ? std::optional(options.rate) : std::nullopt;
  return plan_running(options.checkpoint, sizes, options.running, rate, !options.no_rate, cancel);
}

// A store cannot be converted: there is only running it.
void inspect_store_plan(const InspectOptions& options, const CancelToken& cancel) {
  const RunningView running = view_running(options, sizes_of_store(options.checkpoint), cancel);
  const std::string path = options.checkpoint.string();
  print(options, {{"store", path}, {"running", running_json(running)}},
        fmt::format("{}: a store of perigee pack\n\n{}", path, running_text(running)));
}

// Experts as large as this checkpoint's, whether all of them are there or not.
ModelSizes sizes_of_checkpoint(const K3Config& config, const SizePlan& plan) {
  const std::uint64_t expert_bytes = plan.experts > 0 ? plan.expert_bytes / plan.experts : 0;
  return sizes_from_config(config, expert_bytes, plan.source.layout == Layout::kNvidiaMixed);
}

void inspect_plan(const InspectOptions& options, const CancelToken& cancel) {
  if (is_store(options.checkpoint)) return inspect_store_plan(options, cancel);
  const K3Config config = load_config(options.checkpoint / "config.json");
  const std::optional<CheckpointIndex> index = index_if_there(options.checkpoint);
  const SizePlan plan = plan_sizes(config, index ? &*index : nullptr);
  OutputDisk disk;
  const fs::path out = options.out.empty() ? options.checkpoint : options.out;
  disk.folder = existing_folder(out).string();
  disk.free_bytes = free_bytes(out);
  if (options.rate > 0) {
    disk.rate = DiskRate{options.rate, options.rate, true};
  } else if (!options.no_rate) {
    disk.rate = measure_disk(out, kMeasureSeconds, cancel);
    disk.measured = true;
  }
  const std::string path = options.checkpoint.string();
  const RunningView running = view_running(options, sizes_of_checkpoint(config, plan), cancel);
  Json json = plan_json(path, plan, disk);
  json["running"].update(running_json(running));
  print(options, json, plan_text(path, plan, disk) + '\n' + running_text(running));
}

void inspect_spans(const InspectOptions& options, const CancelToken& cancel) {
  const SpanSurvey survey = survey_spans(options.checkpoint, {.all_nibbles = options.exact,
                                                              .workers = options.jobs,
                                                              .progress = ProgressStyle::kAuto,
                                                              .cancel = &cancel});
  const std::string path = options.checkpoint.string();
  print(options, spans_json(path, survey), spans_text(path, survey));
}

void run_inspect(const InspectOptions& options, const CancelToken& cancel) {
  if (!fs::is_directory(options.checkpoint)) {
    fail(ErrorCode::kNotFound, "{} is not a folder; inspect needs the folder of a checkpoint",
         options.checkpoint.string());
  }
  if (!options.block.name.empty()) return inspect_blocks(options);
  if (options.plan) return inspect_plan(options, cancel);
  if (options.spans) return inspect_spans(options, cancel);
  inspect_overview(options);
}

}  // namespace

void register_inspect(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what is in a checkpoint, and what converting it would need");
  const auto options = std::make_shared<InspectOptions>();
  command->add_option("CKPT", options->checkpoint, "Folder of the checkpoint")->required();
  command->add_flag("--json", options->json, "Print JSON instead of text");
  command->add_flag("--all-findings", options->all_findings,
                    "List every finding instead of the first ten of a kind");

  CLI::Option* tensor =
      command
          ->add_option("--tensor", options->block.name, "Show blocks of this tensor or module in human form")
          ->type_name("NAME")
          ->group("One tensor");
  const auto add_number = [&](const char* name, std::uint64_t& value, const char* help) {
    command->add_option(name, value, help)
        ->check(must_not_be_negative)
        ->type_name("N")
        ->needs(tensor)
        ->group("One tensor");
  };
  add_number("--row", options->block.row, "Row of the matrix [0]");
  add_number("--group", options->block.group, "First group of the row [0]");
  add_number("--count", options->block.count, "Number of groups [1]");

  CLI::Option* plan =
      command
          ->add_flag(
              "--plan", options->plan,
              "Sizes, disk space and time of every conversion, to the byte, and how it would run here; needs "
              "config.json, uses the index, reads no shard")
          ->excludes(tensor)
          ->group("Plan");
  command->add_option("--out", options->out, "Folder that would be written to [CKPT]")
      ->type_name("DIR")
      ->needs(plan)
      ->group("Plan");
  CLI::Option* rate =
      command
          ->add_option("--rate", options->rate,
                       "Speed of its disk, e.g. 2.5GB for 2.5 GB/s [measured for two seconds]")
          ->transform(CLI::AsNumberWithUnit(
              std::map<std::string, double>{{"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}))
          ->check(must_be_positive)
          ->type_name("BYTES/S")
          ->needs(plan)
          ->group("Plan");
  command->add_flag("--no-rate", options->no_rate, "Do not measure the disk; say nothing about time")
      ->needs(plan)
      ->excludes(rate)
      ->group("Plan");

  add_running_options(*command, plan, options->running);

  CLI::Option* spans =
      command
          ->add_flag("--spans", options->spans,
                     "Will the lossless cast work? Reads the block scales (6 % of the bytes)")
          ->excludes(tensor)
          ->excludes(plan)
          ->group("Scales");
  command
      ->add_flag("--exact", options->exact, "Read all nibbles as well, so that zero groups are never counted")
      ->needs(spans)
      ->group("Scales");
  command->add_option("--jobs", options->jobs, "Worker threads [all CPUs]")
      ->type_name("N")
      ->needs(spans)
      ->group("Scales");
  command->callback([options, &context] { run_inspect(*options, context.cancel); });
}

}  // namespace perigee
