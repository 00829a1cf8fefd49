// perigee bench machine: what decides how fast a model runs here, in ten seconds.
#include "cli/bench_machine.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/disk_rate.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "cli/bench_options.h"
#include "cli/machine_cache.h"
#include "cli/model_options.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  perigee bench machine MODEL_FOLDER            measure, and keep it for perigee inspect CKPT --plan\n"
    "  perigee bench machine /mnt/nvme --json        the same for programs\n"
    "Reads of the drive are records of an expert's size at random places of the folder's largest file, past "
    "the page\n"
    "cache; without a large file one of a gigabyte is made there and removed.";

struct MachineArguments {
  std::filesystem::path folder = ".";
  std::filesystem::path rates;
  ModelOptions run;  // backend and threads
  bool tiny = false;
  bool json = false;
};

std::string rate_text(double bytes_per_second) {
  return fmt::format("{} GB/s", giga(bytes_per_second));
}

std::string macs_text(double macs_per_second) {
  return fmt::format("{} GMAC/s", giga(macs_per_second));
}

std::string machine_text(const MachineRates& rates) {
  TextTable table({{fmt::format("{}, {} thread{}", rates.backend, rates.threads, plural(rates.threads))},
                   {"rate", Align::kRight},
                   {"of the limit", Align::kRight},
                   {"CPU", Align::kRight}});
  const double memory = rates.memory_bytes_per_second;
  double peak = 0;
  table.add_row({"memory, read", rate_text(memory)});
  for (const ComputePeak& one : rates.peaks) {
    table.add_row({one.name + ", in registers", macs_text(one.macs_per_second)});
    peak = std::max(peak, one.macs_per_second);
  }
  table.add_rule();
  const auto add = [&](const char* name, const ProductRates& products) {
    table.add_row({fmt::format("{} weights, one token", name), rate_text(products.one_token_bytes_per_second),
                   percent(products.one_token_bytes_per_second, memory)});
    table.add_row({fmt::format("{} weights, {} tokens", name, kPromptTokens),
                   macs_text(products.prompt_macs_per_second),
                   percent(products.prompt_macs_per_second, peak)});
  };
  add("BF16", rates.bf16);
  add("MXFP4", rates.mxfp4);
  table.add_rule();
  for (const DepthRate& rate : rates.drive.depths) {
    table.add_row({fmt::format("drive, {} at a time", rate.depth), rate_text(rate.bytes_per_second), "",
                   fmt::format("{:.3f} s/GB", rate.cpu_seconds_per_gigabyte)});
  }
  return table.text() +
         fmt::format("Records of {} of {}, {}{}\n", format_bytes(rates.drive.record_bytes),
                     rates.drive.made ? "a file made for it" : rates.drive.file.string(), rates.drive.io,
                     rates.drive.direct ? "" : ", through the page cache: too good to be true");
}

MachineRatesOptions options_of(const MachineArguments& arguments) {
  MachineRatesOptions options;
  options.folder = existing_folder(arguments.folder);
  options.backend = arguments.run.backend;
  options.threads = arguments.run.threads;
  options.memory_bytes = std::min(options.memory_bytes, available_memory_bytes() / 4);
  if (arguments.tiny) {
    options.record_bytes = 65'536;
    options.memory_bytes = 4'000'000;
    options.rows = options.columns = 256;
    options.drive_seconds = 0.1;
  }
  options.announce = [](const std::string& step) { log_debug("measuring {}", step); };
  return options;
}

void run_bench_machine(const MachineArguments& arguments, const CancelToken& cancel) {
  const MachineRates rates = measure_machine(options_of(arguments), cancel);
  if (!arguments.tiny || !arguments.rates.empty()) keep_machine_rates(rates, rates_file(arguments.rates));
  const std::string output = arguments.json ? write_machine_rates(rates) : machine_text(rates);
  std::fwrite(output.data(), 1, output.size(), stdout);
}

}  // namespace

void register_bench_machine(CLI::App& bench, CommandContext& context) {
  CLI::App* command = bench.add_subcommand(
      "machine", "Ten seconds: memory, multiplication, and the drive at an expert's size");
  const auto arguments = std::make_shared<MachineArguments>();
  command->add_option("FOLDER", arguments->folder, "On the drive that experts are, or will be, read from")
      ->capture_default_str();
  add_backend_options(*command, arguments->run);
  add_rates_option(*command, arguments->rates);
  command->add_flag("--tiny", arguments->tiny,
                    "Small sizes: tries the command, says nothing about the machine");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer(kFooter);
  command->callback([arguments, &context] { run_bench_machine(*arguments, context.cancel); });
}

}  // namespace perigee
