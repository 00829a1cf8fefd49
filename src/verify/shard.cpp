#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/ordered_hasher.h"
#include "base/pipeline.h"
#include "verify/fp8.h"
#include "verify/module.h"
#include "verify/pairing.h"
#include "verify/pieces.h"
#include "verify/plan.h"
#include "verify/verify.h"

namespace perigee {
namespace verifying {
namespace {

// What compute() hands to retire(); one of them is filled.
struct Outcome {
  std::optional<PieceResult> module;
  std::optional<Fp8Result> fp8;
  ScaleRule source_rule;  // of the module
  FailureList failures;
  float tensor_scale = 0, input_scale = 0;
};

// Whether the scalar is positive and finite, else a failure.
bool check_scalar(const LocatedTensor& tensor, float value, FailureList& failures) {
  if (value > 0 && std::isfinite(value)) return true;
  VerifyFailure failure;
  failure.check = "tensor-scale";
  failure.file = tensor.shard->name;
  failure.tensor = tensor.info->name;
  failure.expected = "a positive finite number";
  failure.found = fmt::format("{}", value);
  failure.message = fmt::format("{} is {}, it must be positive and finite", failure.tensor, value);
  failures.add(std::move(failure));
  return false;
}

// False if the tensor scale is no usable number.
bool make_rule(ExpertFormat format, const LocatedTensor& tensor, std::span<const std::byte> factor,
               ScaleRule& rule, FailureList& failures) {
  rule.format = format;
  if (format == ExpertFormat::kMxfp4) return true;
  const float value = f32_at(factor.data());
  if (!check_scalar(tensor, value, failures) || !f32_fraction(value, rule.tensor_factor)) return false;
  if (format == ExpertFormat::kNvfp4CompressedTensors) rule.tensor_factor = rule.tensor_factor.inverse();
  return true;
}

// A source's calibrated input scale must survive: as it is, or as its reciprocal in the other layout.
void check_input_scale(const ModuleWork& work, std::span<const std::byte> source,
                       std::span<const std::byte> output, Outcome& outcome) {
  if (output.empty()) return;
  outcome.input_scale = f32_at(output.data());
  if (!check_scalar(work.output_input, outcome.input_scale, outcome.failures) || source.empty()) return;
  const double from = f32_at(source.data()), to = outcome.input_scale;
  const bool same = work.source_format == work.output_format;
  if (same ? from == to : std::abs(from * to - 1) <= std::ldexp(1.0, -23)) return;
  VerifyFailure failure;
  failure.check = "input-scale";
  failure.file = work.output_input.shard->name;
  failure.tensor = work.output_input.info->name;
  failure.expected = fmt::format("{:.9g}", same ? from : 1 / from);
  failure.found = fmt::format("{:.9g}", to);
  failure.message = fmt::format("{} is {}, the source's input scale asks for {}", failure.tensor,
                                failure.found, failure.expected);
  outcome.failures.add(std::move(failure));
}

void compare_module(const ModuleWork& work, const Piece& piece, const PieceReads& reads, const Task& task,
                    unsigned decode_every, Outcome& outcome) {
  ModulePiece view;
  outcome.module.emplace();
  const auto output_factor = reads.bytes(task, Role::kOutputFactor);
  if (!output_factor.empty()) outcome.tensor_scale = f32_at(output_factor.data());
  check_input_scale(work, reads.bytes(task, Role::kSourceInput), reads.bytes(task, Role::kOutputInput),
                    outcome);
  if (!make_rule(work.source_format, work.source_factor, reads.bytes(task, Role::kSourceFactor), view.source,
                 outcome.failures) ||
      !make_rule(work.output_format, work.output_factor, output_factor, view.output, outcome.failures)) {
    return;
  }
  outcome.source_rule = view.source;
  view.source_packed = reads.bytes(task, Role::kSourceMain);
  view.source_scales = reads.bytes(task, Role::kSourceScales);
  view.output_packed = reads.bytes(task, Role::kOutputMain);
  view.output_scales = reads.bytes(task, Role::kOutputScales);
  view.first_block = piece.first;
  view.blocks_per_row = work.blocks_per_row;
  view.whole = piece.first == 0 && piece.last;
  view.decode_every = decode_every;
  outcome.module = compare_piece(view, work.names);
}

void compare_copy(const CopyWork& work, const Piece& piece, const PieceReads& reads, const Task& task,
                  Outcome& outcome) {
  const auto source = reads.bytes(task, Role::kSourceMain), output = reads.bytes(task, Role::kOutputMain);
  if (std::memcmp(source.data(), output.data(), source.size()) == 0) return;
  const auto at = std::mismatch(source.begin(), source.end(), output.begin());
  const TensorInfo& tensor = *work.output.info;
  VerifyFailure failure;
  failure.check = "copy";
  failure.file = work.output.shard->name;
  failure.tensor = tensor.name;
  failure.byte = piece.first + static_cast<std::uint64_t>(at.first - source.begin());
  const std::uint64_t row_bytes = tensor.shape.empty() ? 0 : tensor.bytes() / tensor.shape[0];
  if (row_bytes > 0) failure.row = *failure.byte / row_bytes;  // rows of F4 may be less than a byte
  failure.expected = fmt::format("0x{:02x}", std::to_integer<unsigned>(*at.first));
  failure.found = fmt::format("0x{:02x}", std::to_integer<unsigned>(*at.second));
  failure.message =
      fmt::format("{}: byte {} of {} is {}, the source has {}; this tensor must be copied unchanged",
                  failure.file, *failure.byte, tensor.name, failure.found, failure.expected);
  outcome.failures.add(std::move(failure));
}

void compare_fp8_piece(const Fp8Work& work, const Piece& piece, const PieceReads& reads, const Task& task,
                       Outcome& outcome) {
  Fp8Piece view;
  view.source = reads.bytes(task, Role::kSourceMain);
  view.output = reads.bytes(task, Role::kOutputMain);
  view.scales = reads.bytes(task, Role::kOutputScales);
  view.first_element = piece.first;
  view.columns = work.output.info->shape[1];
  view.tensor = work.output.info->name;
  view.scale_tensor = work.scales.info->name;
  view.file = work.output.shard->name;
  outcome.fp8 = compare_fp8(view);
}

// Runs the pieces of one file through the pipeline.
class ShardRun {
 public:
  ShardRun(const WorkPlan& plan, const CheckedShard& output, const PieceList& list,
           const VerifyOptions& options, ShardVerification& result, Progress* progress)
      : plan_(plan),
        output_(output),
        list_(list),
        options_(options),
        result_(result),
        progress_(progress),
        outcomes_(list.pieces.size()) {
    if (options.hash && options.sample_fraction >= 1) hasher_.emplace(true);
  }

  void run(AsyncIo& io) {
    PipelineOptions pipeline_options;
    pipeline_options.workers = options_.workers;
    pipeline_options.io_depth = options_.io_depth;
    pipeline_options.memory_bytes = options_.memory_bytes;
    pipeline_options.cancel = options_.cancel;
    Pipeline pipeline(io, pipeline_options);
    pipeline.run(
        list_.pieces.size(), list_.largest_slot,
        [this](std::size_t i) { return piece_reads(plan_, output_, list_.pieces[i]).plan; },
        [this](Task& task) { compute(task); }, [this](Task& task) { retire(task); });
    if (hasher_) {
      StreamDigest digest = hasher_->finish();
      result_.sha256 = std::move(digest.sha256);
      result_.xxh3 = digest.xxh3;
    }
  }

 private:
  void compute(Task& task) {
    const Piece& piece = list_.pieces[task.index];
    if (piece.kind == PieceKind::kHashOnly) return;
    const PieceReads reads = piece_reads(plan_, output_, piece);
    auto outcome = std::make_unique<Outcome>();
    if (piece.kind == PieceKind::kModule) {
      compare_module(plan_.modules[piece.work], piece, reads, task, options_.decode_every, *outcome);
    } else if (piece.kind == PieceKind::kCopy) {
      compare_copy(plan_.copies[piece.work], piece, reads, task, *outcome);
    } else {
      compare_fp8_piece(plan_.fp8[piece.work], piece, reads, task, *outcome);
    }
    outcomes_[task.index] = std::move(outcome);
  }

  void retire(Task& task) {
    const Piece& piece = list_.pieces[task.index];
    if (hasher_ && piece.hash_range.size() > 0) {
      const PieceReads reads = piece_reads(plan_, output_, piece);
      hasher_->update(task.inputs[reads.around_input].subspan(piece.hash_range.begin - reads.around.begin,
                                                              piece.hash_range.size()),
                      task.slot);
    }
    for (const auto& input : task.inputs) result_.bytes_read += input.size();
    if (progress_ != nullptr) progress_->add(hasher_ ? piece.hash_range.size() : piece.file_range.size());
    if (piece.kind == PieceKind::kHashOnly) return;
    const std::unique_ptr<Outcome> outcome = std::move(outcomes_[task.index]);
    result_.failures.append(outcome->failures);
    if (piece.kind == PieceKind::kModule) {
      retire_module(piece, *outcome);
    } else if (piece.kind == PieceKind::kCopy) {
      result_.copied_tensors += piece.last ? 1 : 0;
      result_.copied_bytes += piece.count;
    } else {
      retire_fp8(piece, *outcome);
    }
  }

  void retire_module(const Piece& piece, const Outcome& outcome) {
    const ModuleWork& work = plan_.modules[piece.work];
    if (piece.first == 0) {
      VerifiedModule module;
      module.layer = work.layer;
      module.expert = work.expert;
      module.projection = work.projection;
      module.tensor_scale = outcome.tensor_scale;
      module.input_scale = outcome.input_scale;
      result_.modules.push_back(std::move(module));
    }
    VerifiedModule& module = result_.modules.back();
    add_piece(module, *outcome.module, outcome.source_rule);
    module.failed = module.failed || outcome.failures.count > 0;
    result_.failures.append(outcome.module->failures);
  }

  void retire_fp8(const Piece& piece, const Outcome& outcome) {
    const Fp8Work& work = plan_.fp8[piece.work];
    if (result_.fp8.empty() || result_.fp8.back().tensor != work.output.info->name) {
      result_.fp8.push_back({work.output.info->name, work.scales.info->elements(), {}});
    }
    result_.fp8.back().error.add(outcome.fp8->error);
    result_.failures.append(outcome.fp8->failures);
  }

  const WorkPlan& plan_;
  const CheckedShard& output_;
  const PieceList& list_;
  const VerifyOptions& options_;
  ShardVerification& result_;
  Progress* progress_;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  std::optional<OrderedHasher> hasher_;
};

void add_header_failure(const OutputShard& shard, const Error& error, FailureList& failures) {
  VerifyFailure failure;
  failure.check = "header";
  failure.file = shard.name.empty() ? shard.path.filename().string() : shard.name;
  failure.message = error.what();
  failures.add(std::move(failure));
}

}  // namespace
}  // namespace verifying

namespace {

Verdict shard_verdict(const ShardVerification& shard) {
  if (shard.failures.count > 0) return Verdict::kFailed;
  const bool changed = std::any_of(shard.modules.begin(), shard.modules.end(),
                                   [](const VerifiedModule& module) { return module.changed_blocks16 > 0; });
  const bool rounded = std::any_of(shard.fp8.begin(), shard.fp8.end(),
                                   [](const VerifiedFp8& tensor) { return tensor.error.error_squared > 0; });
  return changed || rounded ? Verdict::kLossy : Verdict::kLossless;
}

}  // namespace

ShardVerification verify_shard(AsyncIo& io, TensorCatalog& source, const OutputShard& shard,
                               const VerifyOptions& options, Progress* progress) {
  using namespace verifying;
  ShardVerification result;
  result.failures.limit = options.max_failures;
  result.file = shard.name.empty() ? shard.path.filename().string() : shard.name;
  std::shared_ptr<const CheckedShard> output;
  try {
    output = CheckedShard::open(shard.path, result.file);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kNotFound) throw;
    add_header_failure(shard, error, result.failures);
    result.verdict = Verdict::kFailed;
    return result;
  }
  result.file_bytes = output->file_bytes;
  result.tensors = output->header.tensors.size();
  const WorkPlan plan = plan_work(source, output, shard, result.failures);
  result.source_format = plan.source_format;
  result.output_format = plan.output_format;
  const PieceList list = make_pieces(plan, *output, options.hash, options.sample_fraction);
  result.units = list.units;
  result.units_skipped = list.skipped;
  ShardRun(plan, *output, list, options, result, progress).run(io);
  check_pairs(result.modules, plan.output_format, result.file, result.failures);
  result.verdict = shard_verdict(result);
  return result;
}

}  // namespace perigee
