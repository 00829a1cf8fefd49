// perigee synth: options and the closing lines; the work is synth/synth.h.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/choice.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "synth/synth.h"

namespace perigee {
namespace {

constexpr const char* kExamples = R"(Examples:
  perigee synth tiny                                        about 2 MB, in a moment
  perigee synth small --preset small --seed 7               about 180 MB
  perigee synth slice --preset slice                        K3's real widths, about 8 GB
  perigee synth shard --preset k3 --shards 12               one real-size shard of 17 GB
  perigee synth ghost --preset k3 --ghost                   all 96 real headers, no data, in seconds
  perigee synth bad --span 20 --every 4                     every fourth expert cannot be cast without loss
The same options and seed give the same bytes, whatever the number of jobs. Nothing in it comes from a released model.)";

struct SynthArguments {
  SynthOptions options;
  std::string out;
  bool json = false;
};

void add_size_options(CLI::App& command, SynthArguments& arguments) {
  constexpr const char* kGroup = "Sizes";
  SynthSizes& sizes = arguments.options.sizes;
  add_choice(command, "--preset", arguments.options.preset,
             {{"tiny", SynthPreset::kTiny},
              {"small", SynthPreset::kSmall},
              {"slice", SynthPreset::kSlice},
              {"k3", SynthPreset::kK3}},
             "Sizes to start from")
      ->group(kGroup);
  const auto add = [&](const char* name, std::optional<std::uint64_t>& size, const char* help) {
    command.add_option(name, size, help)->group(kGroup);
  };
  add("--layers", sizes.layers, "Decoder layers; the first is dense, every fourth and the last are MLA");
  add("--experts", sizes.experts, "Routed experts of a layer");
  add("--hidden", sizes.hidden, "Hidden size");
  add("--moe-width", sizes.moe_width, "Width of an expert, a multiple of 32");
  add("--latent", sizes.latent, "Input and output width of the experts, a multiple of 32");
  add("--dense-width", sizes.dense_width, "Width of the dense feed-forward part of layer 0");
  add("--heads", sizes.heads, "Attention heads, KDA and MLA");
  add("--head-dim", sizes.head_dim, "Width of a head");
  add("--vocab", sizes.vocab, "Vocabulary size, at least 256");
  add("--vision-blocks", sizes.vision_blocks, "Blocks of the vision tower");
}

void add_expert_options(CLI::App& command, SynthArguments& arguments) {
  constexpr const char* kGroup = "Difficult experts";
  ExpertStress& stress = arguments.options.experts;
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kGroup);
  };
  const auto flag = [&](const char* name, bool& value, const char* help) {
    command.add_flag(name, value, help)->group(kGroup);
  };
  add("--every", stress.every, "Only experts whose number is a multiple of this; also for --split-pairs")
      ->default_str("1");
  add("--span", stress.span, "Scale exponents of each module fill exactly this many binades, 0 to 24");
  add("--uneven-pair", stress.uneven_pair, "Scale exponents of w3 are this much below those of w1, 0 to 64");
  add("--negative-zeros", stress.negative_zeros, "Fraction of zero weights that are -0");
  add("--zero-groups", stress.zero_groups, "Fraction of groups of 32 that are all zero");
  add_choice(command, "--all-zero-tensor", stress.all_zero,
             {{"none", std::optional<Projection>()},
              {"w1", std::optional(Projection::kW1)},
              {"w2", std::optional(Projection::kW2)},
              {"w3", std::optional(Projection::kW3)}},
             "This projection is all zero")
      ->group(kGroup);
  add_choice(
      command, "--zero-scale", stress.zero_group_scale,
      {{"kept", ZeroGroupScale::kKept}, {"zero", ZeroGroupScale::kZero}, {"random", ZeroGroupScale::kRandom}},
      "Scale bytes of zero groups: as if they were not zero, 0x00, or anything but 0xFF")
      ->group(kGroup);
  flag("--byte-00", stress.byte_00, "Group 2 of each module is active and has scale byte 0x00 (2^-127)");
  flag("--byte-ff", stress.byte_ff, "Group 3 of each module is active and has scale byte 0xFF (NaN)");
  flag("--byte-ff-zero", stress.byte_ff_zero, "Group 4 of each module is zero and has scale byte 0xFF");
}

void add_layout_options(CLI::App& command, SynthArguments& arguments) {
  constexpr const char* kGroup = "Difficult checkpoints";
  SynthOptions& options = arguments.options;
  const auto flag = [&](const char* name, bool& value, const char* help) {
    command.add_flag(name, value, help)->group(kGroup);
  };
  flag("--nan", options.nan, "The first two values of every self_attn.o_proj are NaN");
  flag("--a-log-tail", options.a_log_tail, "The padding of A_log is not zero");
  flag("--split-pairs", options.split_pairs, "w3 is in the shard after that of w1 and w2");
  flag("--shuffle", options.shuffle, "Tensors of a file are in random order");
  command.add_option("--extra-tensor", options.extra_tensor, "Add a tensor of this name to the last shard")
      ->group(kGroup);
}

void add_running_options(CLI::App& command, SynthArguments& arguments) {
  SynthOptions& options = arguments.options;
  command.add_option("--seed", options.seed, "Another seed gives other values")->default_str("1");
  command.add_option("--shards", options.shards, "Write only these shards, counted from 1, e.g. 12,13")
      ->delimiter(',');
  command.add_flag("--full-index", options.full_index, "Index all shards even if --shards leaves some out");
  command.add_flag("--ghost", options.ghost, "Real headers, but holes instead of data: needs no disk space");
  command.add_flag("--overwrite", options.overwrite, "Replace a checkpoint that synth made in OUT");
  command.add_option("--jobs", options.jobs, "Worker threads; 0 = one per CPU")->default_str("0");
  command.add_flag("--json", arguments.json, "Summary and progress as JSON");
}

void print_summary(const SynthArguments& arguments, const SynthSummary& summary) {
  if (arguments.json) {
    const nlohmann::ordered_json line = {{"event", "synth"},
                                         {"path", arguments.out},
                                         {"shards", summary.shards},
                                         {"tensors", summary.tensors},
                                         {"experts", summary.experts},
                                         {"tensor_bytes", summary.tensor_bytes},
                                         {"file_bytes", summary.file_bytes},
                                         {"seconds", summary.seconds}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("{}: {} shard{}, {} tensors, {} experts, {} in {}{}\n", arguments.out, summary.shards,
             plural(summary.shards), with_commas(summary.tensors), with_commas(summary.experts),
             format_bytes(summary.file_bytes), format_duration(summary.seconds),
             arguments.options.ghost ? " (headers only; the data are holes)" : "");
}

void run_synth(const SynthArguments& arguments, const CommandContext& context) {
  const ProgressStyle style = arguments.json ? ProgressStyle::kJson : ProgressStyle::kAuto;
  print_summary(arguments, make_checkpoint(arguments.out, arguments.options, &context.cancel, style));
}

}  // namespace

void register_synth(CLI::App& app, CommandContext& context) {
  const auto arguments = std::make_shared<SynthArguments>();
  CLI::App* command =
      app.add_subcommand("synth", "Make a synthetic checkpoint with K3's names and structure");
  command->footer(kExamples);
  command->add_option("OUT", arguments->out, "Folder to make; must be empty or absent")->required();
  add_running_options(*command, *arguments);
  add_size_options(*command, *arguments);
  add_expert_options(*command, *arguments);
  add_layout_options(*command, *arguments);
  command->callback([arguments, &context] { run_synth(*arguments, context); });
}

}  // namespace perigee
