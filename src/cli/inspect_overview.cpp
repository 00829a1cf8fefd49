// The default view of `perigee inspect`.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "cli/inspect_views.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

std::string types_text(const ClassSummary& summary) {
  std::string text;
  for (const auto& [dtype, totals] : summary.by_dtype) {
    if (!text.empty()) text += ", ";
    text += summary.by_dtype.size() == 1 ? dtype : fmt::format("{} {}", with_commas(totals.tensors), dtype);
  }
  return text;
}

std::string quantisation(TensorClass tensor_class, const CheckpointOverview& overview) {
  const bool attention = tensor_class == TensorClass::kKdaLinear || tensor_class == TensorClass::kMlaLinear;
  if (tensor_class == TensorClass::kExpert) return expert_format_name(overview.expert_format);
  return attention && overview.has_fp8_attention ? "fp8-block" : "-";
}

std::string format_text(const CheckpointOverview& overview) {
  std::string text = expert_format_name(overview.expert_format);
  if (overview.has_input_scale) text += " with input scales";
  if (overview.has_fp8_attention) text += ", attention fp8-block";
  if (!overview.manifest_format) return text + "  (manifest unreadable)";
  if (*overview.manifest_format == overview.expert_format) return text + "  (the manifest agrees)";
  return fmt::format("{}  (the manifest claims {})", text, expert_format_name(*overview.manifest_format));
}

std::string class_table(const CheckpointOverview& overview) {
  TextTable table({{"Class"},
                   {"Tensors", Align::kRight},
                   {"Bytes", Align::kRight},
                   {"Share", Align::kRight},
                   {"Quantisation"},
                   {"Types"}});
  const auto total = static_cast<double>(overview.inventory.bytes);
  for (const auto& [tensor_class, summary] : overview.classes) {
    table.add_row({tensor_class_name(tensor_class), with_commas(summary.total.tensors),
                   with_commas(summary.total.bytes), percent(static_cast<double>(summary.total.bytes), total),
                   quantisation(tensor_class, overview), types_text(summary)});
  }
  table.add_rule();
  table.add_row({"total", with_commas(overview.inventory.tensors), with_commas(overview.inventory.bytes)});
  return table.text();
}

// Grouped by kind, notes last.
std::string findings_section(const CheckpointOverview& overview, std::size_t shown) {
  std::map<std::pair<bool, FindingKind>, std::vector<const Finding*>> groups;
  for (const Finding& finding : overview.findings)
    groups[{finding.harmless, finding.kind}].push_back(&finding);
  if (groups.empty()) return "Findings none\n";
  std::string text = "Findings\n";
  for (const auto& [key, findings] : groups) {
    const auto& [harmless, kind] = key;
    const std::string label = fmt::format("{}{}", finding_kind_name(kind), harmless ? " (note)" : "");
    for (std::size_t i = 0; i < std::min(shown, findings.size()); ++i) {
      text += fmt::format("  {:<14}  {}\n", label, findings[i]->text);
    }
    if (findings.size() > shown) {
      text += fmt::format("  {:<14}  … and {} more of this kind; --all-findings lists them\n", label,
                          with_commas(findings.size() - shown));
    }
  }
  return text;
}

Json totals_json(const ClassTotals& totals) {
  return {{"tensors", totals.tensors}, {"bytes", totals.bytes}};
}

}  // namespace

std::string overview_text(const std::string& path, const CheckpointOverview& overview,
                          std::size_t findings_shown) {
  const Inventory& inventory = overview.inventory;
  std::string text = fmt::format("{}\n\n", path);
  const auto line = [&](const char* label, const std::string& value) {
    text += fmt::format("{:<9}{}\n", label, value);
  };
  line("Experts", format_text(overview));
  const std::string blocks = inventory.mxfp4_blocks > 0 ? fmt::format(", {} blocks of 32 weights",
                                                                      with_commas(inventory.mxfp4_blocks))
                                                        : "";
  line("", fmt::format("{} expert{}, {} modules{}", with_commas(inventory.experts), plural(inventory.experts),
                       with_commas(inventory.expert_modules), blocks));
  line("Layers", fmt::format("{} KDA, {} MLA; {} dense, {} MoE", overview.kda_layers, overview.mla_layers,
                             overview.dense_layers, overview.moe_layers));
  line("Shards",
       fmt::format("{} of {} are there, {} bytes ({})", overview.shards_present, overview.shards_indexed,
                   with_commas(overview.file_bytes), format_bytes(overview.file_bytes)));
  line("Tensors", fmt::format("{} in shards, {} in the index", with_commas(inventory.tensors),
                              with_commas(overview.indexed_tensors)));
  if (inventory.tensors > 0) text += '\n' + class_table(overview);
  if (overview.shards_present == 0)
    text += "\nNo shard is here; --plan needs only config.json and the index.\n";
  return text + '\n' + findings_section(overview, findings_shown);
}

Json overview_json(const std::string& path, const CheckpointOverview& overview) {
  const Inventory& inventory = overview.inventory;
  Json json = {{"checkpoint", path},
               {"expert_format", expert_format_name(overview.expert_format)},
               {"manifest_format", nullptr},
               {"input_scales", overview.has_input_scale},
               {"fp8_attention", overview.has_fp8_attention},
               {"experts", inventory.experts},
               {"expert_modules", inventory.expert_modules},
               {"blocks32", inventory.mxfp4_blocks},
               {"layers",
                {{"kda", overview.kda_layers},
                 {"mla", overview.mla_layers},
                 {"dense", overview.dense_layers},
                 {"moe", overview.moe_layers}}},
               {"shards", {{"indexed", overview.shards_indexed}, {"present", overview.shards_present}}},
               {"file_bytes", overview.file_bytes},
               {"tensors", inventory.tensors},
               {"tensor_bytes", inventory.bytes},
               {"indexed_tensors", overview.indexed_tensors},
               {"classes", Json::object()},
               {"findings", Json::array()}};
  if (overview.manifest_format) json["manifest_format"] = expert_format_name(*overview.manifest_format);
  for (const auto& [tensor_class, summary] : overview.classes) {
    Json entry = totals_json(summary.total);
    for (const auto& [dtype, totals] : summary.by_dtype) entry["types"][dtype] = totals_json(totals);
    json["classes"][tensor_class_name(tensor_class)] = std::move(entry);
  }
  for (const Finding& finding : overview.findings) {
    json["findings"].push_back(
        {{"kind", finding_kind_name(finding.kind)}, {"harmless", finding.harmless}, {"text", finding.text}});
  }
  return json;
}

}  // namespace perigee
