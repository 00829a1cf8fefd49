// `perigee inspect --plan`: sizes, space and time.

#include <utility>

#include "base/progress.h"
#include "cli/inspect_views.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

double to_double(std::uint64_t bytes) {
  return static_cast<double>(bytes);
}

// Source read once, output written once; one disk does both in turn.
double convert_seconds(const LayoutPlan& source, const LayoutPlan& target, const DiskRate& rate) {
  return to_double(source.total_bytes()) / rate.read_bytes_per_second +
         to_double(target.total_bytes()) / rate.write_bytes_per_second;
}

double verify_seconds(const LayoutPlan& source, const LayoutPlan& target, const DiskRate& rate) {
  return to_double(source.total_bytes() + target.total_bytes()) / rate.read_bytes_per_second;
}

std::string size_table(const SizePlan& plan) {
  TextTable table({{"Layout"},
                   {"Input scales"},
                   {"Tensors", Align::kRight},
                   {"Tensor bytes", Align::kRight},
                   {"Headers", Align::kRight},
                   {"Index", Align::kRight},
                   {"On disk", Align::kRight},
                   {"vs source", Align::kRight},
                   {"Largest file", Align::kRight}});
  const auto add = [&](const LayoutPlan& layout, const std::string& name) {
    const double change = to_double(layout.total_bytes()) / to_double(plan.source.total_bytes()) - 1;
    table.add_row({name, activations_name(layout.activations), with_commas(layout.tensors),
                   with_commas(layout.tensor_bytes), with_commas(layout.header_bytes),
                   with_commas(layout.index_bytes), with_commas(layout.total_bytes()),
                   &layout == &plan.source ? "" : fmt::format("{:+.2f} %", 100 * change),
                   with_commas(layout.largest_file())});
  };
  add(plan.source, fmt::format("{} (source)", layout_name(plan.source.layout)));
  table.add_rule();
  for (const LayoutPlan& target : plan.targets) {
    if (target.impossible.empty()) add(target, layout_name(target.layout));
  }
  return table.text();
}

std::string disk_section(const SizePlan& plan, const OutputDisk& disk) {
  std::string text = fmt::format("Disk     {}: {} free ({})\n", disk.folder, with_commas(disk.free_bytes),
                                 format_bytes(disk.free_bytes));
  if (disk.rate) {
    text += fmt::format("         {}/s read, {}/s write ({}{})\n",
                        format_bytes(static_cast<std::uint64_t>(disk.rate->read_bytes_per_second)),
                        format_bytes(static_cast<std::uint64_t>(disk.rate->write_bytes_per_second)),
                        disk.measured ? "measured" : "as given",
                        disk.rate->direct ? "" : ", through the page cache: too good to be true");
  }
  TextTable table(
      {{"Layout"}, {"Input scales"}, {"Space"}, {"Convert", Align::kRight}, {"Verify", Align::kRight}});
  for (const LayoutPlan& target : plan.targets) {
    if (!target.impossible.empty()) continue;
    const std::uint64_t needed = target.total_bytes();
    const bool fits = needed <= disk.free_bytes;
    const auto time = [&](auto seconds) {
      return disk.rate ? format_duration(seconds(plan.source, target, *disk.rate)) : std::string("-");
    };
    table.add_row({layout_name(target.layout), activations_name(target.activations),
                   fits ? "fits" : fmt::format("{} short", format_bytes(needed - disk.free_bytes)),
                   time(convert_seconds), time(verify_seconds)});
  }
  return text + '\n' + table.text();
}

Json layout_json(const LayoutPlan& layout) {
  Json json = {{"layout", layout_name(layout.layout)}, {"activations", activations_name(layout.activations)}};
  if (!layout.impossible.empty()) {
    json["impossible"] = layout.impossible;
    return json;
  }
  json.update({{"tensors", layout.tensors},
               {"index_entries", layout.tensors},
               {"tensor_bytes", layout.tensor_bytes},
               {"header_bytes", layout.header_bytes},
               {"index_bytes", layout.index_bytes},
               {"total_bytes", layout.total_bytes()},
               {"largest_file_bytes", layout.largest_file()},
               {"files", Json::array()}});
  for (const FilePlan& file : layout.files) {
    json["files"].push_back({{"name", file.name},
                             {"tensors", file.tensors},
                             {"header_bytes", file.header_bytes},
                             {"data_bytes", file.data_bytes}});
  }
  return json;
}

}  // namespace

std::string plan_text(const std::string& path, const SizePlan& plan, const OutputDisk& disk) {
  std::string text = fmt::format("{}: plan from config.json and the index; no shard was read\n\n", path);
  text += size_table(plan);
  text += fmt::format("\n{} files and the index each; {} experts, {} modules, {} blocks of 32 weights\n",
                      with_commas(plan.source.files.size()), with_commas(plan.experts),
                      with_commas(plan.expert_modules), with_commas(plan.mxfp4_blocks));
  for (const LayoutPlan& target : plan.targets) {
    if (!target.impossible.empty()) {
      text += fmt::format("{} with input scales {} is not possible: {}\n", layout_name(target.layout),
                          activations_name(target.activations), target.impossible);
    }
  }
  text += '\n' + disk_section(plan, disk);
  text += fmt::format(
      "\nRunning  {} of routed experts, {} ({}) touched by a token; {} ({}) for everything else of the "
      "text model\n",
      format_bytes(plan.expert_bytes), format_bytes(plan.expert_bytes_per_token),
      with_commas(plan.expert_bytes_per_token), format_bytes(plan.trunk_bytes),
      with_commas(plan.trunk_bytes));
  for (const std::string& disagreement : plan.disagreements)
    text += fmt::format("\nNot exact: {}\n", disagreement);
  return text;
}

Json plan_json(const std::string& path, const SizePlan& plan, const OutputDisk& disk) {
  Json json = {{"checkpoint", path},
               {"exact", plan.disagreements.empty()},
               {"disagreements", plan.disagreements},
               {"experts", plan.experts},
               {"expert_modules", plan.expert_modules},
               {"blocks32", plan.mxfp4_blocks},
               {"source", layout_json(plan.source)},
               {"targets", Json::array()},
               {"running",
                {{"expert_bytes", plan.expert_bytes},
                 {"expert_bytes_per_token", plan.expert_bytes_per_token},
                 {"trunk_bytes", plan.trunk_bytes}}},
               {"disk", {{"folder", disk.folder}, {"free_bytes", disk.free_bytes}}}};
  if (disk.rate) {
    json["disk"].update({{"read_bytes_per_second", disk.rate->read_bytes_per_second},
                         {"write_bytes_per_second", disk.rate->write_bytes_per_second},
                         {"direct", disk.rate->direct},
                         {"measured", disk.measured}});
  }
  for (const LayoutPlan& target : plan.targets) {
    Json entry = layout_json(target);
    if (target.impossible.empty()) {
      entry["fits"] = target.total_bytes() <= disk.free_bytes;
      if (disk.rate) {
        entry["convert_seconds"] = convert_seconds(plan.source, target, *disk.rate);
        entry["verify_seconds"] = verify_seconds(plan.source, target, *disk.rate);
      }
    }
    json["targets"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace perigee
