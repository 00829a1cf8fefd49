#include "survey/span_survey.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/pipeline.h"
#include "checkpoint/index.h"
#include "numerics/e4m3.h"
#include "survey/expert_map.h"
#include "survey/span_decision.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPieceGroups = 256
                                       << 10;   // 4 MB of nibbles, so that a huge tensor needs no huge slot
constexpr std::uint64_t kNibblesPerGroup = 16;  // bytes
constexpr unsigned kReadsAhead = 32;

// Consecutive groups of one module.
struct Piece {
  std::size_t set = 0;
  const ExpertModulePlace* module = nullptr;
  std::uint64_t first_group = 0;
  std::uint64_t groups = 0;
};

class LayerSurveyor {
 public:
  LayerSurveyor(const fs::path& checkpoint, const ExpertMap& map, Pipeline& pipeline, Progress& progress)
      : checkpoint_(checkpoint), map_(map), pipeline_(pipeline), progress_(progress) {}

  void survey_mxfp4(std::int32_t layer, bool all_nibbles, SpanSurvey& survey);
  void survey_nvfp4(std::int32_t layer, SpanSurvey& survey);

 private:
  using Modules = std::vector<const ExpertModulePlace*>;

  static Modules set_modules(const ExpertPlace& expert, bool gate_up) {
    if (gate_up) return {&expert[0], &expert[2]};
    return {&expert[1]};
  }

  const File& file(std::uint32_t shard) {
    std::unique_ptr<File>& file = files_[shard];
    if (!file)
      file = std::make_unique<File>(File::open_read(checkpoint_ / map_.shards[shard], Caching::kDirect));
    return *file;
  }

  Extent extent(const TensorPlace& tensor, std::uint64_t offset, std::uint64_t length) {
    return {&file(tensor.shard), tensor.position + offset, length};
  }

  // Pieces of the given sets in the order of the files.
  std::vector<Piece> pieces_of(const std::vector<std::size_t>& sets) const;
  // Only reads that were in the plan from the start count for the progress.
  enum class Planned { kFromStart, kExtra };
  void run(std::vector<TaskPlan> plans, Planned planned, const Pipeline::ComputeFunction& compute,
           const Pipeline::RetireFunction& retire);

  void read_scales(const std::vector<std::size_t>& sets);
  void read_offending_groups(const std::vector<std::size_t>& sets);
  void read_all_nibbles(const std::vector<std::size_t>& sets, Planned planned);
  std::vector<std::size_t> sets_that_need(SpanEvidence evidence) const;

  const fs::path& checkpoint_;
  const ExpertMap& map_;
  Pipeline& pipeline_;
  Progress& progress_;
  std::map<std::uint32_t, std::unique_ptr<File>> files_;
  std::vector<Modules> modules_;         // per set
  std::vector<SpanDecision> decisions_;  // per set
  std::uint64_t bytes_read_ = 0;
};

std::vector<Piece> LayerSurveyor::pieces_of(const std::vector<std::size_t>& sets) const {
  std::vector<Piece> pieces;
  for (const std::size_t set : sets) {
    for (const ExpertModulePlace* module : modules_[set]) {
      const std::uint64_t groups = module->nibbles.bytes / kNibblesPerGroup;
      for (std::uint64_t first = 0; first < groups; first += kPieceGroups) {
        pieces.push_back({set, module, first, std::min(kPieceGroups, groups - first)});
      }
    }
  }
  std::ranges::sort(pieces, {}, [](const Piece& piece) {
    return std::tuple(piece.module->scales.shard, piece.module->scales.position, piece.first_group);
  });
  return pieces;
}

void LayerSurveyor::run(std::vector<TaskPlan> plans, Planned planned,
                        const Pipeline::ComputeFunction& compute, const Pipeline::RetireFunction& retire) {
  std::uint64_t largest = 0;
  for (const TaskPlan& plan : plans) largest = std::max(largest, Pipeline::slot_bytes(plan));
  pipeline_.run(
      plans.size(), largest, [&](std::size_t i) { return plans[i]; }, compute,
      [&](Task& task) {
        for (const std::span<const std::byte>& input : task.inputs) {
          bytes_read_ += input.size();
          if (planned == Planned::kFromStart) progress_.add(input.size());
        }
        retire(task);
      });
}

void LayerSurveyor::read_scales(const std::vector<std::size_t>& sets) {
  const std::vector<Piece> pieces = pieces_of(sets);
  std::vector<TaskPlan> plans;
  for (const Piece& piece : pieces) {
    plans.push_back({{extent(piece.module->scales, piece.first_group, piece.groups)}, 0});
  }
  std::vector<ScaleBytes> results(pieces.size());
  run(
      std::move(plans), Planned::kFromStart,
      [&](Task& task) { results[task.index] = count_scale_bytes(task.inputs[0]); },
      [&](Task& task) {
        const Piece& piece = pieces[task.index];
        decisions_[piece.set].add_scales(piece.module, piece.first_group, results[task.index]);
        results[task.index] = {};
      });
}

void LayerSurveyor::read_offending_groups(const std::vector<std::size_t>& sets) {
  std::vector<std::size_t> owners;
  std::vector<TaskPlan> plans;
  for (const std::size_t set : sets) {
    for (const GroupRun& run : decisions_[set].offending_runs()) {
      const Extent read =
          extent(run.module->nibbles, run.first * kNibblesPerGroup, run.count * kNibblesPerGroup);
      owners.push_back(set);
      plans.push_back({{read}, 0});
    }
  }
  std::vector<char> active(plans.size(), 0);
  run(
      std::move(plans), Planned::kExtra,
      [&](Task& task) { active[task.index] = !all_nibbles_zero(task.inputs[0]); },
      [&](Task& task) { decisions_[owners[task.index]].add_offending(active[task.index] != 0); });
  for (const std::size_t set : sets) decisions_[set].finish_offending();
}

void LayerSurveyor::read_all_nibbles(const std::vector<std::size_t>& sets, Planned planned) {
  const std::vector<Piece> pieces = pieces_of(sets);
  std::vector<TaskPlan> plans;
  for (const Piece& piece : pieces) {
    plans.push_back({{extent(piece.module->nibbles, piece.first_group * kNibblesPerGroup,
                             piece.groups * kNibblesPerGroup),
                      extent(piece.module->scales, piece.first_group, piece.groups)},
                     0});
  }
  std::vector<std::unique_ptr<Mxfp4Scan>> scans(pieces.size());
  run(
      std::move(plans), planned,
      [&](Task& task) {
        scans[task.index] = std::make_unique<Mxfp4Scan>();
        scan_mxfp4(task.inputs[0], task.inputs[1], *scans[task.index]);
      },
      [&](Task& task) {
        decisions_[pieces[task.index].set].add_scan(*scans[task.index]);
        scans[task.index].reset();
      });
  for (const std::size_t set : sets) decisions_[set].finish_scan();
}

std::vector<std::size_t> LayerSurveyor::sets_that_need(SpanEvidence evidence) const {
  std::vector<std::size_t> sets;
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (decisions_[i].needs() == evidence) sets.push_back(i);
  }
  return sets;
}

void LayerSurveyor::survey_mxfp4(std::int32_t layer, bool all_nibbles, SpanSurvey& survey) {
  modules_.clear();
  decisions_.clear();
  for (const auto& [expert, place] : map_.layers.at(layer)) {
    for (const bool gate_up : {true, false}) {
      modules_.push_back(set_modules(place, gate_up));
      decisions_.emplace_back(layer, expert, gate_up);
    }
  }
  std::vector<std::size_t> all(modules_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all_nibbles) {
    read_all_nibbles(all, Planned::kFromStart);
  } else {
    read_scales(all);
    for (SpanDecision& decision : decisions_) decision.finish_scales();
    read_offending_groups(sets_that_need(SpanEvidence::kOffendingGroups));
    read_all_nibbles(sets_that_need(SpanEvidence::kAllNibbles), Planned::kExtra);
  }
  LayerSpans spans{.layer = layer, .gate_up = {}, .down = {}};
  for (const SpanDecision& decision : decisions_) {
    const SetSpan& set = decision.result();
    (set.gate_up ? spans.gate_up : spans.down).add(set, decision.histogram());
    survey.sets.push_back(set);
  }
  survey.spans.push_back(spans);
  survey.bytes_read += std::exchange(bytes_read_, 0);
  files_.clear();
}

void LayerSurveyor::survey_nvfp4(std::int32_t layer, SpanSurvey& survey) {
  modules_.clear();
  std::vector<std::size_t> all;
  for (const auto& [expert, place] : map_.layers.at(layer)) {
    for (const bool gate_up : {true, false}) {
      all.push_back(modules_.size());
      modules_.push_back(set_modules(place, gate_up));
    }
  }
  const std::vector<Piece> pieces = pieces_of(all);
  std::vector<TaskPlan> plans;
  for (const Piece& piece : pieces) {
    plans.push_back({{extent(piece.module->scales, piece.first_group * 2, piece.groups * 2)}, 0});
  }
  LayerCodes codes{.layer = layer, .gate_up = {}, .down = {}};
  std::vector<std::array<std::uint64_t, 256>> results(pieces.size());
  run(
      std::move(plans), Planned::kFromStart,
      [&](Task& task) { results[task.index] = count_scale_bytes(task.inputs[0]).groups; },
      [&](Task& task) {
        const Piece& piece = pieces[task.index];
        CodeTotals& totals = modules_[piece.set].size() == 2 ? codes.gate_up : codes.down;
        totals.add_codes(results[task.index]);
        totals.modules += piece.first_group == 0 ? 1 : 0;
      });
  survey.codes.push_back(codes);
  survey.bytes_read += std::exchange(bytes_read_, 0);
  files_.clear();
}

bool is_power_of_two_code(std::uint8_t code) {
  return code >= 8 ? code % 8 == 0 : std::has_single_bit(code);
}

void widen(bool other_any, int other_min, int other_max, bool& any, int& min, int& max) {
  if (!other_any) return;
  min = any ? std::min(min, other_min) : other_min;
  max = any ? std::max(max, other_max) : other_max;
  any = true;
}

}  // namespace

const char* span_evidence_name(SpanEvidence evidence) {
  switch (evidence) {
    case SpanEvidence::kScales:
      return "scales";
    case SpanEvidence::kOffendingGroups:
      return "offending-groups";
    case SpanEvidence::kAllNibbles:
      return "all-nibbles";
  }
  return "?";
}

const char* span_verdict_name(SpanVerdict verdict) {
  switch (verdict) {
    case SpanVerdict::kLossless:
      return "lossless";
    case SpanVerdict::kOverSpan:
      return "over-span";
    case SpanVerdict::kNanScale:
      return "nan-scale";
    case SpanVerdict::kBeyondFloat:
      return "beyond-float";
    case SpanVerdict::kTooSmall:
      return "too-small";
  }
  return "?";
}

void SpanTotals::add(const SetSpan& set, const SpanHistogram& set_histogram) {
  SpanTotals one;
  one.sets = 1;
  one.lossless_sets = set.verdict == SpanVerdict::kLossless ? 1 : 0;
  one.groups = set.groups;
  one.active_groups = set.active_groups;
  one.over_span_groups = set.over_span_groups;
  one.marlin_unsafe_blocks = set.marlin_unsafe_blocks;
  one.byte_00_groups = set.byte_00_groups;
  one.byte_ff_groups = set.byte_ff_groups;
  one.sets_by_evidence[static_cast<std::size_t>(set.evidence)] = 1;
  one.max_exponent = set.max_exponent;
  one.min_exponent = set.min_exponent;
  one.any_active = set.any_active;
  one.histogram = set_histogram;
  add(one);
}

void SpanTotals::add(const SpanTotals& other) {
  sets += other.sets;
  lossless_sets += other.lossless_sets;
  groups += other.groups;
  active_groups += other.active_groups;
  over_span_groups += other.over_span_groups;
  marlin_unsafe_blocks += other.marlin_unsafe_blocks;
  byte_00_groups += other.byte_00_groups;
  byte_ff_groups += other.byte_ff_groups;
  for (std::size_t i = 0; i < sets_by_evidence.size(); ++i) sets_by_evidence[i] += other.sets_by_evidence[i];
  for (std::size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
  widen(other.any_active, other.min_exponent, other.max_exponent, any_active, min_exponent, max_exponent);
}

void CodeTotals::add_codes(const std::array<std::uint64_t, 256>& codes) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(i);
    const std::uint64_t count = codes[i];
    if (count == 0) continue;
    blocks += count;
    const std::uint8_t magnitude = code & 0x7F;
    if (magnitude == kE4m3Nan) {
      nan += count;
    } else if (magnitude == 0) {
      zero += count;
    } else if ((code & kE4m3SignBit) != 0) {
      negative += count;
    } else {
      if (magnitude < 8) subnormal += count;
      if (!is_power_of_two_code(code)) not_power_of_two += count;
      min_code = min_code == 0 ? code : std::min(min_code, code);
      max_code = std::max(max_code, code);
    }
  }
}

void CodeTotals::add(const CodeTotals& other) {
  modules += other.modules;
  blocks += other.blocks;
  zero += other.zero;
  subnormal += other.subnormal;
  negative += other.negative;
  nan += other.nan;
  not_power_of_two += other.not_power_of_two;
  if (other.min_code != 0) min_code = min_code == 0 ? other.min_code : std::min(min_code, other.min_code);
  max_code = std::max(max_code, other.max_code);
}

SpanSurvey survey_spans(const fs::path& checkpoint, const SpanSurveyOptions& options) {
  const CheckpointIndex index = load_checkpoint_index(checkpoint);
  const ExpertMap map = map_experts(checkpoint, index);
  if (map.layers.empty()) {
    fail(ErrorCode::kNotFound,
         "{} has no complete routed expert ({} of {} shards are there); a survey of scales "
         "needs at least one",
         checkpoint.string(), map.shards.size() - map.missing_shards, map.shards.size());
  }
  SpanSurvey survey;
  survey.format = map.format;
  survey.incomplete_experts = map.incomplete_experts;
  survey.missing_shards = map.missing_shards;
  const bool all_nibbles = options.all_nibbles && map.format == ExpertFormat::kMxfp4;
  const std::unique_ptr<AsyncIo> io = make_async_io();
  Pipeline pipeline(*io, {.workers = options.workers, .io_depth = kReadsAhead, .cancel = options.cancel});
  Progress progress("reading scales", map.scale_bytes + (all_nibbles ? map.nibble_bytes : 0),
                    options.progress);
  LayerSurveyor surveyor(checkpoint, map, pipeline, progress);
  for (const auto& [layer, experts] : map.layers) {
    progress.set_detail(fmt::format("layer {}", layer));
    if (map.format == ExpertFormat::kMxfp4) {
      surveyor.survey_mxfp4(layer, all_nibbles, survey);
    } else {
      surveyor.survey_nvfp4(layer, survey);
    }
  }
  progress.finish();
  return survey;
}

}  // namespace perigee
