// `perigee inspect --spans`: will the lossless cast work, and what will kernels do with its scales.

#include <utility>

#include "base/progress.h"
#include "cli/inspect_views.h"
#include "cli/text_table.h"
#include "numerics/e4m3.h"

namespace perigee {
namespace {

constexpr std::size_t kSetsShown = 20;
constexpr std::size_t kMarlinFirstUnsafe =
    15;  // docs/formats.md: d of the first block that Marlin reads as zero

const char* set_name(bool gate_up) {
  return gate_up ? "w1+w3" : "w2";
}

std::string range_text(const SpanTotals& totals) {
  if (!totals.any_active) return "-";
  return fmt::format("{} to {}", totals.min_exponent, totals.max_exponent);
}

std::string deepest_bin(const SpanHistogram& histogram) {
  for (std::size_t d = histogram.size(); d-- > 0;) {
    if (histogram[d] > 0) return d == kSurveyBins - 1 ? ">17" : fmt::format("{}", d);
  }
  return "-";
}

void add_span_row(TextTable& table, const std::string& layer, const char* set, const SpanTotals& totals) {
  table.add_row({layer, set, with_commas(totals.sets),
                 totals.lossless_sets == totals.sets ? "all" : with_commas(totals.lossless_sets),
                 range_text(totals), deepest_bin(totals.histogram), with_commas(totals.over_span_groups),
                 with_commas(totals.marlin_unsafe_blocks), with_commas(totals.byte_00_groups),
                 with_commas(totals.byte_ff_groups)});
}

struct Both {
  SpanTotals gate_up, down;
  SpanTotals sum() const {
    SpanTotals total = gate_up;
    total.add(down);
    return total;
  }
};

Both totals_of(const SpanSurvey& survey) {
  Both both;
  for (const LayerSpans& layer : survey.spans) {
    both.gate_up.add(layer.gate_up);
    both.down.add(layer.down);
  }
  return both;
}

std::string span_table(const SpanSurvey& survey, const Both& both) {
  TextTable table({{"Layer", Align::kRight},
                   {"Set"},
                   {"Sets", Align::kRight},
                   {"Lossless", Align::kRight},
                   {"k", Align::kRight},
                   {"Largest d", Align::kRight},
                   {"Over-span", Align::kRight},
                   {"Marlin-unsafe", Align::kRight},
                   {"0x00", Align::kRight},
                   {"0xFF", Align::kRight}});
  for (const LayerSpans& layer : survey.spans) {
    add_span_row(table, fmt::format("{}", layer.layer), set_name(true), layer.gate_up);
    add_span_row(table, "", set_name(false), layer.down);
  }
  table.add_rule();
  add_span_row(table, "all", set_name(true), both.gate_up);
  add_span_row(table, "", set_name(false), both.down);
  return table.text();
}

std::string histogram_table(const Both& both) {
  TextTable table({{"d = K - k", Align::kRight},
                   {"Groups w1+w3", Align::kRight},
                   {"Groups w2", Align::kRight},
                   {"Share", Align::kRight},
                   {""}});
  const auto all = static_cast<double>(both.gate_up.active_groups + both.down.active_groups);
  for (std::size_t d = 0; d < kSurveyBins; ++d) {
    const std::uint64_t gate_up = both.gate_up.histogram[d], down = both.down.histogram[d];
    if (gate_up + down == 0) continue;
    const bool over = d == kSurveyBins - 1;
    table.add_row({over ? ">17" : fmt::format("{}", d), with_commas(gate_up), with_commas(down),
                   percent(static_cast<double>(gate_up + down), all),
                   over ? "does not fit" : (d >= kMarlinFirstUnsafe ? "Marlin reads zero" : "")});
  }
  return table.text();
}

std::string refused_table(const SpanSurvey& survey) {
  TextTable table({{"Layer", Align::kRight},
                   {"Expert", Align::kRight},
                   {"Set"},
                   {"Verdict"},
                   {"k", Align::kRight},
                   {"Over-span groups", Align::kRight},
                   {"Evidence"}});
  std::size_t refused = 0;
  for (const SetSpan& set : survey.sets) {
    if (set.verdict == SpanVerdict::kLossless || refused++ >= kSetsShown) continue;
    table.add_row({fmt::format("{}", set.layer), fmt::format("{}", set.expert), set_name(set.gate_up),
                   span_verdict_name(set.verdict),
                   set.any_active ? fmt::format("{} to {}", set.min_exponent, set.max_exponent) : "-",
                   with_commas(set.over_span_groups), span_evidence_name(set.evidence)});
  }
  std::string text = table.text();
  if (refused > kSetsShown)
    text += fmt::format("… and {} more; --json lists all\n", with_commas(refused - kSetsShown));
  return text;
}

std::string verdict_text(const SpanTotals& total) {
  const std::uint64_t refused = total.sets - total.lossless_sets;
  if (refused > 0) {
    return fmt::format(
        "{} of {} sets cannot be cast without loss; `perigee convert` refuses them unless "
        "told what to do:\n",
        with_commas(refused), with_commas(total.sets));
  }
  return fmt::format(
      "The lossless cast works for all {} sets ({} groups of 32). {}\n", with_commas(total.sets),
      with_commas(total.groups),
      total.marlin_unsafe_blocks == 0
          ? "No block is below Marlin's limit."
          : fmt::format("At most {} blocks of 16 are below Marlin's limit and read as zero there.",
                        with_commas(total.marlin_unsafe_blocks)));
}

std::string evidence_text(const SpanTotals& total) {
  const auto sets = [&](SpanEvidence evidence) {
    return with_commas(total.sets_by_evidence[static_cast<std::size_t>(evidence)]);
  };
  return fmt::format(
      "Decided by scales alone: {} sets (zero groups count as values there); by the nibbles of groups "
      "that seemed not to fit: {}; by all nibbles: {}\n",
      sets(SpanEvidence::kScales), sets(SpanEvidence::kOffendingGroups), sets(SpanEvidence::kAllNibbles));
}

std::string mxfp4_text(const SpanSurvey& survey) {
  const Both both = totals_of(survey);
  const SpanTotals total = both.sum();
  std::string text = span_table(survey, both) + '\n' + histogram_table(both) + '\n' + verdict_text(total);
  if (total.lossless_sets < total.sets) text += '\n' + refused_table(survey) + '\n';
  return text + evidence_text(total);
}

std::string code_text(std::uint8_t code) {
  return code == 0 ? "-" : fmt::format("0x{:02X} = {:g}", code, e4m3_value(code));
}

void add_code_row(TextTable& table, const std::string& layer, const char* set, const CodeTotals& totals) {
  table.add_row({layer, set, with_commas(totals.modules), with_commas(totals.blocks),
                 code_text(totals.min_code), code_text(totals.max_code), with_commas(totals.subnormal),
                 with_commas(totals.zero), with_commas(totals.not_power_of_two), with_commas(totals.negative),
                 with_commas(totals.nan)});
}

std::string nvfp4_text(const SpanSurvey& survey) {
  TextTable table({{"Layer", Align::kRight},
                   {"Set"},
                   {"Modules", Align::kRight},
                   {"Blocks of 16", Align::kRight},
                   {"Smallest"},
                   {"Largest"},
                   {"Subnormal", Align::kRight},
                   {"Zero", Align::kRight},
                   {"Not 2^n", Align::kRight},
                   {"Negative", Align::kRight},
                   {"NaN", Align::kRight}});
  CodeTotals gate_up, down;
  for (const LayerCodes& layer : survey.codes) {
    add_code_row(table, fmt::format("{}", layer.layer), set_name(true), layer.gate_up);
    add_code_row(table, "", set_name(false), layer.down);
    gate_up.add(layer.gate_up);
    down.add(layer.down);
  }
  table.add_rule();
  add_code_row(table, "all", set_name(true), gate_up);
  add_code_row(table, "", set_name(false), down);
  return table.text() +
         "\nSubnormal E4M3 scales are read as zero by Marlin; blocks whose weights are all zero may have "
         "one and lose nothing.\n";
}

Json totals_json(const SpanTotals& totals) {
  Json json = {{"sets", totals.sets},
               {"lossless_sets", totals.lossless_sets},
               {"groups32", totals.groups},
               {"active_groups32", totals.active_groups},
               {"over_span_groups32", totals.over_span_groups},
               {"marlin_unsafe_blocks16", totals.marlin_unsafe_blocks},
               {"byte_00_groups", totals.byte_00_groups},
               {"byte_ff_groups", totals.byte_ff_groups},
               {"groups32_by_d", totals.histogram}};
  if (totals.any_active) json.update({{"k_max", totals.max_exponent}, {"k_min", totals.min_exponent}});
  return json;
}

Json totals_json(const CodeTotals& totals) {
  return {{"modules", totals.modules},
          {"blocks16", totals.blocks},
          {"subnormal", totals.subnormal},
          {"zero", totals.zero},
          {"negative", totals.negative},
          {"nan", totals.nan},
          {"min_code", totals.min_code},
          {"max_code", totals.max_code},
          {"not_power_of_two", totals.not_power_of_two}};
}

Json set_json(const SetSpan& set) {
  Json json = {{"layer", set.layer},
               {"expert", set.expert},
               {"set", set_name(set.gate_up)},
               {"verdict", span_verdict_name(set.verdict)},
               {"evidence", span_evidence_name(set.evidence)}};
  if (set.any_active) json.update({{"k_max", set.max_exponent}, {"k_min", set.min_exponent}});
  json.update({{"groups32", set.groups},
               {"active_groups32", set.active_groups},
               {"over_span_groups32", set.over_span_groups},
               {"marlin_unsafe_blocks16", set.marlin_unsafe_blocks},
               {"byte_00_groups", set.byte_00_groups},
               {"byte_ff_groups", set.byte_ff_groups}});
  return json;
}

}  // namespace

std::string spans_text(const std::string& path, const SpanSurvey& survey) {
  std::string text = fmt::format("{}: block scales of {} experts, {} read\n\n", path,
                                 expert_format_name(survey.format), format_bytes(survey.bytes_read));
  text += survey.format == ExpertFormat::kMxfp4 ? mxfp4_text(survey) : nvfp4_text(survey);
  if (survey.missing_shards + survey.incomplete_experts > 0) {
    text += fmt::format("\nPartial: {} shard{} missing, {} expert{} incomplete and left out\n",
                        survey.missing_shards, plural(survey.missing_shards), survey.incomplete_experts,
                        plural(survey.incomplete_experts));
  }
  return text;
}

Json spans_json(const std::string& path, const SpanSurvey& survey) {
  Json json = {{"checkpoint", path},
               {"expert_format", expert_format_name(survey.format)},
               {"bytes_read", survey.bytes_read},
               {"missing_shards", survey.missing_shards},
               {"incomplete_experts", survey.incomplete_experts}};
  json["layers"] = Json::array();
  for (const LayerSpans& layer : survey.spans) {
    json["layers"].push_back(
        {{"layer", layer.layer}, {"w1+w3", totals_json(layer.gate_up)}, {"w2", totals_json(layer.down)}});
  }
  for (const LayerCodes& layer : survey.codes) {
    json["layers"].push_back(
        {{"layer", layer.layer}, {"w1+w3", totals_json(layer.gate_up)}, {"w2", totals_json(layer.down)}});
  }
  if (survey.format != ExpertFormat::kMxfp4) return json;
  const Both both = totals_of(survey);
  json["total"] = {{"w1+w3", totals_json(both.gate_up)}, {"w2", totals_json(both.down)}};
  json["sets"] = Json::array();
  for (const SetSpan& set : survey.sets) json["sets"].push_back(set_json(set));
  return json;
}

}  // namespace perigee
