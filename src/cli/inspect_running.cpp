#include "cli/inspect_running.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/disk_rate.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "cli/machine_cache.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kGroup = "Plan for running";

// A desktop of 2024: two channels of DDR5, eight cores with AVX-512, one PCIe 4 drive.
MachineRates assumed_rates() {
  MachineRates rates;
  rates.backend = "avx512-bf16";
  rates.threads = 8;
  rates.memory_bytes_per_second = 60e9;
  rates.bf16 = {48e9, 300e9};
  rates.mxfp4 = {36e9, 250e9};
  rates.drive.direct = true;
  rates.drive.depths = {{1, 3.5e9, 0}, {2, 5.5e9, 0}, {4, 6.5e9, 0}};
  return rates;
}

struct FoundRates {
  MachineRates rates;
  std::string origin;
  bool assumed = false;
};

FoundRates find_rates(const std::filesystem::path& folder, const RunningOptions& options, bool may_measure,
                      const CancelToken& cancel) {
  const std::filesystem::path file = rates_file(options.rates);
  if (!options.calibrate) {
    if (auto kept = load_machine_rates(file))
      return {*kept, fmt::format("measured, kept in {}", file.string())};
    if (!may_measure || ::isatty(STDERR_FILENO) == 0) {
      return {assumed_rates(),
              "ASSUMED, of a desktop with DDR5 and one PCIe 4 drive; perigee bench machine measures yours",
              true};
    }
  }
  log_info("measuring this machine for ten seconds");
  MachineRatesOptions measuring;
  measuring.folder = existing_folder(folder);
  const MachineRates rates = measure_machine(measuring, cancel);
  keep_machine_rates(rates, file);
  return {rates, "measured just now"};
}

std::string tokens_text(double seconds) {
  return seconds > 0 ? fmt::format("{:.3g}", 1 / seconds) : "-";
}

std::string memory_table(const RunningView& view) {
  TextTable table({{"Part"}, {"Bytes", Align::kRight}, {"Where"}});
  for (const TrunkPart& part : view.sizes.trunk)
    if (part.bytes > 0) table.add_row({"trunk: " + part.name, format_bytes(part.bytes), "memory"});
  const MemoryPlan& memory = *view.plan.now.memory;
  const std::uint64_t sequences = view.request.sequences;
  table.add_row({fmt::format("state of {} sequence{}: KDA", sequences, plural(sequences)),
                 format_bytes(sequences * view.sizes.state_bytes), "memory"});
  table.add_row({fmt::format("  and MLA, {} tokens of {} each", with_commas(view.request.context),
                             format_bytes(view.sizes.cache_bytes_a_token)),
                 format_bytes(sequences * view.request.context * view.sizes.cache_bytes_a_token), "memory"});
  table.add_row({fmt::format("a step of {} tokens", with_commas(memory.prompt_chunk)),
                 format_bytes(memory.activations), "memory"});
  table.add_row(
      {fmt::format("{} of {} experts", with_commas(memory.slots), with_commas(view.sizes.expert_count())),
       format_bytes(memory.experts), "memory"});
  const std::uint64_t elsewhere = view.sizes.expert_count() - memory.slots;
  if (!memory.resident && elsewhere > 0) {
    table.add_row({fmt::format("{} experts", with_commas(elsewhere)),
                   format_bytes(elsewhere * view.sizes.expert_bytes), "drive"});
  }
  table.add_rule();
  table.add_row({"in memory", format_bytes(memory.total()),
                 fmt::format("of {}", format_bytes(view.request.ram_bytes))});
  return table.text();
}

void add_outlook(TextTable& table, const RunOutlook& outlook) {
  if (!outlook.memory) {
    table.add_row({outlook.name, "refused"});
    return;
  }
  const RunSpeed& speed = outlook.speed;
  table.add_row({outlook.name, format_bytes(outlook.ram_bytes),
                 outlook.memory->resident ? "all" : with_commas(outlook.memory->slots),
                 fmt::format("{:.0f} %", 100 * speed.hit_rate),
                 format_bytes(static_cast<std::uint64_t>(speed.read_bytes)),
                 format_duration(speed.token_seconds()), tokens_text(speed.token_seconds()),
                 format_duration(speed.prompt_seconds)});
}

std::string speed_table(const RunningView& view) {
  TextTable table({{"What"},
                   {"Memory", Align::kRight},
                   {"Experts in it", Align::kRight},
                   {"Found there", Align::kRight},
                   {"Read a token", Align::kRight},
                   {"Time a token", Align::kRight},
                   {"Tokens/s", Align::kRight},
                   {fmt::format("First of {}", with_commas(view.request.prompt)), Align::kRight}});
  add_outlook(table, view.plan.now);
  table.add_rule();
  for (const RunOutlook& change : view.plan.changes) add_outlook(table, change);
  return table.text();
}

Json outlook_json(const RunOutlook& outlook) {
  Json json = {{"what", outlook.name}, {"ram_bytes", outlook.ram_bytes}};
  if (!outlook.memory) {
    json["refused"] = outlook.refusal;
    return json;
  }
  const MemoryPlan& memory = *outlook.memory;
  const RunSpeed& speed = outlook.speed;
  json["memory"] = {{"resident", memory.resident},         {"trunk_bytes", memory.trunk},
                    {"state_bytes", memory.states},        {"activation_bytes", memory.activations},
                    {"expert_bytes", memory.experts},      {"slots", memory.slots},
                    {"prompt_chunk", memory.prompt_chunk}, {"total_bytes", memory.total()}};
  json["hit_rate"] = speed.hit_rate;
  json["read_bytes_a_token"] = speed.read_bytes;
  json["trunk_seconds"] = speed.trunk_seconds;
  json["expert_seconds"] = speed.experts_seconds;
  json["token_seconds"] = speed.token_seconds();
  json["tokens_per_second"] = 1 / speed.token_seconds();
  json["first_token_seconds"] = speed.prompt_seconds;
  json["prompt_read_bytes"] = speed.prompt_read_bytes;
  return json;
}

}  // namespace

void add_running_options(CLI::App& command, CLI::Option* plan, RunningOptions& options) {
  const auto of_plan = [plan](CLI::Option* option) { return option->needs(plan)->group(kGroup); };
  of_plan(command.add_option("--ram", options.ram_bytes, "Memory to plan for, e.g. 64G [what is available]")
              ->transform(CLI::AsSizeValue(true))
              ->type_name("SIZE"));
  of_plan(
      command
          .add_option("--vram", options.vram_bytes,
                      "Memory of GPUs; 0 is all there is to plan with, because everything is computed on the "
                      "processor")
          ->transform(CLI::AsSizeValue(true))
          ->type_name("SIZE"));
  const auto add_number = [&](const char* name, auto& value, const char* help, std::uint64_t most) {
    of_plan(command.add_option(name, value, help)
                ->capture_default_str()
                ->check(CLI::Range(std::uint64_t{1}, most))
                ->type_name("N"));
  };
  add_number("--prompt", options.request.prompt, "Tokens of a prompt", 1U << 24);
  add_number("--context", options.request.context, "Tokens that a sequence may have", 1U << 24);
  add_number("--sequences", options.request.sequences, "Sequences at a time", 4096);
  add_number("--drives", options.drives, "Drives that share the experts, each as fast as the measured one",
             64);
  of_plan(
      command.add_option("--trace", options.trace, "Recorded routing of this model, of perigee run --trace")
          ->type_name("FILE"));
  of_plan(command
              .add_option("--machine-rates", options.rates,
                          "This machine's rates, of perigee bench machine [in the user's cache folder]")
              ->type_name("FILE"));
  of_plan(command.add_flag("--calibrate", options.calibrate, "Measure them anew, which takes ten seconds"));
}

RunningView plan_running(const std::filesystem::path& folder, const ModelSizes& sizes,
                         const RunningOptions& options, std::optional<double> drive_rate, bool may_measure,
                         const CancelToken& cancel) {
  if (options.vram_bytes > 0) {
    fail(ErrorCode::kUsage,
         "--vram {} cannot be planned with: this program computes on the processor, so a GPU would hold "
         "nothing; leave it out, or give 0",
         format_bytes(options.vram_bytes));
  }
  RunningView view;
  view.sizes = sizes;
  view.request = options.request;
  view.request.ram_bytes = options.ram_bytes > 0 ? options.ram_bytes : available_memory_bytes() / 16 * 15;
  view.drives = options.drives;
  FoundRates found = find_rates(folder, options, may_measure, cancel);
  if (drive_rate) {
    found.rates.drive.depths = {{1, *drive_rate, 0}};
    found.origin += "; the drive as given";
  }
  view.rates = found.origin;
  view.assumed_rates = found.assumed;
  const HitModel hits = options.trace.empty()
                            ? HitModel::assumed(sizes)
                            : HitModel::of_trace(load_trace(options.trace), options.trace.string(), sizes);
  view.assumption = hits.assumption();
  view.plan = plan_run(sizes, view.request, run_rates(found.rates, options.drives), hits);
  return view;
}

std::string running_text(const RunningView& view) {
  const RunPlan& plan = view.plan;
  std::string text = fmt::format("Running it with {} of memory and {} drive{}\n\n",
                                 format_bytes(view.request.ram_bytes), view.drives, plural(view.drives));
  text += plan.now.memory ? memory_table(view) : fmt::format("Refused: {}\n", plan.now.refusal);
  text += '\n' + speed_table(view);
  text += fmt::format("\nRefused below {}; no expert is read from a drive from {} on.",
                      format_bytes(plan.least_ram_bytes), format_bytes(plan.resident_ram_bytes));
  if (plan.now.memory && !plan.now.memory->resident)
    text += fmt::format(" One more GB of memory gives {:+.4f} tokens/s.", plan.tokens_a_second_per_gigabyte);
  text +=
      fmt::format("\nRates: {}.\nExperts found in memory: by {}. Reading ahead can only make it better.\n",
                  view.rates, view.assumption);
  return text;
}

Json running_json(const RunningView& view) {
  Json parts = Json::array(), changes = Json::array();
  for (const TrunkPart& part : view.sizes.trunk) {
    parts.push_back({{"name", part.name},
                     {"bytes", part.bytes},
                     {"fp8_bytes", part.bytes_as[static_cast<std::size_t>(PlaneFormat::kFp8)]},
                     {"nvfp4_bytes", part.bytes_as[static_cast<std::size_t>(PlaneFormat::kNvfp4)]}});
  }
  for (const RunOutlook& change : view.plan.changes) changes.push_back(outlook_json(change));
  return {{"rates", view.rates},
          {"rates_assumed", view.assumed_rates},
          {"routing", view.assumption},
          {"drives", view.drives},
          {"sequences", view.request.sequences},
          {"context", view.request.context},
          {"prompt", view.request.prompt},
          {"trunk", std::move(parts)},
          {"experts", view.sizes.expert_count()},
          {"one_expert_bytes", view.sizes.expert_bytes},
          {"state_bytes", view.sizes.state_bytes},
          {"cache_bytes_a_token", view.sizes.cache_bytes_a_token},
          {"least_ram_bytes", view.plan.least_ram_bytes},
          {"resident_ram_bytes", view.plan.resident_ram_bytes},
          {"now", outlook_json(view.plan.now)},
          {"changes", std::move(changes)},
          {"tokens_per_second_per_gigabyte", view.plan.tokens_a_second_per_gigabyte}};
}

}  // namespace perigee
