#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "engines/matcher.h"
#include "verify/metadata.h"
#include "verify/pairing.h"
#include "verify/plan.h"
#include "verify/summary.h"

namespace perigee {
namespace verifying {
namespace {

namespace fs = std::filesystem;

// The output's own shards, sorted: what lies in the folder, whether the index knows it or not.
std::vector<std::string> safetensors_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename().string());
  }
  if (error) fail(ErrorCode::kNotFound, "{} cannot be listed: {}", folder.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

class CheckpointCheck {
 public:
  CheckpointCheck(const fs::path& source, const fs::path& output, const VerifyOptions& options)
      : options_(options), source_(source) {
    report_.source = source;
    report_.output = output;
    report_.failures.limit = options.max_failures;
  }

  VerifyReport run() {
    const auto start = std::chrono::steady_clock::now();
    files_ = safetensors_files(report_.output);
    load_output_index();
    check_files();
    choose_sample();
    verify_shards();
    check_completeness();
    summarise_modules(report_);
    check_surroundings();
    decide();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  void add(const char* check, const std::string& file, const std::string& tensor, std::string message) {
    VerifyFailure failure;
    failure.check = check;
    failure.file = file;
    failure.tensor = tensor;
    failure.message = std::move(message);
    report_.failures.add(std::move(failure));
  }

  void load_output_index();
  void check_files();
  void choose_sample();
  void verify_shards();
  void compare_with_index(const std::string& file);
  void check_completeness();
  void check_surroundings();
  void decide();
  bool has_output(const std::string& name) const { return output_->index().shard_of(name) != nullptr; }

  VerifyOptions options_;
  TensorCatalog source_;
  std::optional<TensorCatalog> output_;
  std::vector<std::string> files_;
  std::vector<StoredModule> stored_;   // what an engine will be asked to load
  std::vector<VerifiedModule> alone_;  // w1 and w3 whose partner is in another file
  std::uint64_t tensor_bytes_ = 0;
  VerifyReport report_;
};

// Without a usable index, one is made from the headers, so that the rest can still be checked.
void CheckpointCheck::load_output_index() {
  try {
    output_.emplace(report_.output);
    return;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kNotFound) throw;
    add("index", kIndexFileName, "", error.what());
  }
  CheckpointIndex index;
  for (const std::string& file : files_) {
    try {
      const auto shard = CheckedShard::open(report_.output / file);
      const auto number = static_cast<std::uint32_t>(index.shards.size());
      for (const TensorInfo& tensor : shard->header.tensors) index.entries.push_back({tensor.name, number});
      index.shards.push_back(file);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt) throw;  // verify_shard() will report it
    }
  }
  output_.emplace(report_.output, std::move(index));
}

void CheckpointCheck::check_files() {
  const std::vector<std::string>& indexed = output_->index().shards;
  for (const std::string& file : files_) {
    if (std::find(indexed.begin(), indexed.end(), file) != indexed.end()) continue;
    add("extra-file", file, "",
        fmt::format("{} is not in the index; loaders disagree on whether to read it", file));
  }
  for (const std::string& file : indexed) {
    if (std::binary_search(files_.begin(), files_.end(), file)) continue;
    add("missing-file", file, "",
        fmt::format("{} is in the index but not in {}", file, report_.output.string()));
  }
}

void CheckpointCheck::choose_sample() {
  if (options_.sample_experts > 0) {
    std::uint64_t experts = 0;
    for (const IndexEntry& entry : source_.index().entries) {
      const TensorName name = parse_tensor_name(entry.name);
      experts += name.tensor_class == TensorClass::kExpert && name.projection == Projection::kW1 &&
                 name.part == Part::kWeightScale;
    }
    options_.sample_fraction =
        experts == 0 ? 1.0 : static_cast<double>(options_.sample_experts) / static_cast<double>(experts);
  }
  report_.sampled = options_.sample_fraction < 1;
  if (report_.sampled) options_.hash = false;
}

void CheckpointCheck::compare_with_index(const std::string& file) {
  std::shared_ptr<const CheckedShard> shard;
  try {
    shard = output_->shard(file);
  } catch (const Error&) {
    return;  // verify_shard() has said what is wrong
  }
  const std::vector<StoredModule> stored = stored_modules(shard->header.tensors);
  stored_.insert(stored_.end(), stored.begin(), stored.end());
  const CheckpointIndex& index = output_->index();
  for (const TensorInfo& tensor : shard->header.tensors) {
    tensor_bytes_ += tensor.bytes();
    const std::string* indexed = index.shard_of(tensor.name);
    if (indexed != nullptr && *indexed == file) continue;
    add("index", file, tensor.name,
        indexed == nullptr ? fmt::format("{}: {} is not in the index", file, tensor.name)
                           : fmt::format("{}: the index puts {} into {}", file, tensor.name, *indexed));
  }
  for (const IndexEntry& entry : index.entries) {
    if (index.shards[entry.shard] != file || shard->header.find(entry.name) != nullptr) continue;
    add("index", file, entry.name,
        fmt::format("{}: the index puts {} there, but the file lacks it", file, entry.name));
  }
}

void CheckpointCheck::verify_shards() {
  std::uint64_t total = 0;
  for (const std::string& file : files_) total += fs::file_size(report_.output / file);
  // Of a sample nobody knows beforehand how much is read.
  Progress progress("verify", total, report_.sampled ? ProgressStyle::kOff : options_.progress);
  const std::unique_ptr<AsyncIo> io = make_async_io(options_.backend);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (options_.cancel != nullptr) options_.cancel->check();
    progress.set_detail(fmt::format("shard {}/{}", i + 1, files_.size()));
    OutputShard shard;
    shard.path = report_.output / files_[i];
    shard.others = &*output_;
    shard.format = report_.output_format;
    ShardVerification result = verify_shard(*io, source_, shard, options_, &progress);
    compare_with_index(files_[i]);
    report_.failures.append(result.failures);
    if (report_.output_format == ExpertFormat::kNone) report_.output_format = result.output_format;
    if (report_.source_format == ExpertFormat::kNone) report_.source_format = result.source_format;
    for (VerifiedModule& module : without_partner(result.modules)) alone_.push_back(std::move(module));
    std::move(result.modules.begin(), result.modules.end(), std::back_inserter(report_.modules));
    result.modules.clear();
    for (const VerifiedFp8& tensor : result.fp8) report_.fp8.add(tensor.error);
    report_.fp8_tensors += result.fp8.size();
    report_.shards.push_back(std::move(result));
  }
  progress.finish();
  check_pairs(alone_, report_.output_format, "experts split over files", report_.failures);
}

// Every source tensor must have its outputs. A source shard of which nothing at all is there makes the output
// partial.
void CheckpointCheck::check_completeness() {
  const CheckpointIndex& index = source_.index();
  std::vector<std::uint8_t> present(index.shards.size(), 0);
  std::vector<std::pair<std::uint32_t, std::string>> missing;
  for (const IndexEntry& entry : index.entries) {
    for (std::string& name : required_outputs(entry.name, report_.output_format, false)) {
      if (has_output(name)) {
        present[entry.shard] = 1;
      } else {
        missing.emplace_back(entry.shard, std::move(name));
      }
    }
  }
  report_.source_shards = present.size();
  report_.source_shards_absent = static_cast<std::uint64_t>(std::count(present.begin(), present.end(), 0));
  if (report_.source_shards_absent == present.size()) {
    add("missing-tensor", "", "",
        fmt::format("{} has no tensor of {}", report_.output.string(), report_.source.string()));
  }
  for (const auto& [shard, name] : missing) {
    if (present[shard] == 0) continue;
    add("missing-tensor", index.shards[shard], name,
        fmt::format("{} is missing; other tensors of the source's {} are there", name, index.shards[shard]));
  }
}

void CheckpointCheck::check_surroundings() {
  const std::optional<std::uint64_t> total_size = output_->index().total_size;
  if (!total_size) {
    report_.warnings.push_back(fmt::format("{} has no metadata.total_size", kIndexFileName));
  } else if (*total_size != tensor_bytes_) {
    add("index", kIndexFileName, "",
        fmt::format("{}: metadata.total_size is {}, the tensors have {} bytes", kIndexFileName, *total_size,
                    tensor_bytes_));
  }
  TensorFacts facts;
  facts.format = report_.output_format;
  facts.has_experts = report_.output_format != ExpertFormat::kNone;
  facts.has_input_scales = report_.total.input_scales > 0;
  facts.has_fp8_attention = report_.fp8_tensors > 0;
  if (facts.has_input_scales && report_.total.input_scales != report_.total.modules) {
    add("input-scale", "", "",
        fmt::format("{} of {} expert modules have an input scale; all or none must",
                    report_.total.input_scales, report_.total.modules));
  }
  check_manifests(report_.output, facts, stored_, report_.failures, report_.warnings);
  std::map<std::string, std::string> computed;
  for (const ShardVerification& shard : report_.shards) computed[shard.file] = shard.sha256;
  report_.checksums_compared =
      check_checksums(report_.output, computed, options_.cancel, report_.failures, report_.warnings);
}

void CheckpointCheck::decide() {
  if (report_.total.outside_gate > 0) {
    report_.warnings.push_back(
        fmt::format("{} modules have a relative RMSE above {} or a cosine below {}: more than standard "
                    "requantisation costs",
                    report_.total.outside_gate, kGateRelativeRmse, kGateCosine));
  }
  if (report_.total.span.marlin_unsafe_blocks16 > 0 && report_.output_format != ExpertFormat::kMxfp4) {
    report_.warnings.push_back(
        fmt::format("{} blocks are 15 to 17 binades below their module's largest: exact on disk, but "
                    "the Marlin kernels of vLLM and SGLang flush them to zero",
                    report_.total.span.marlin_unsafe_blocks16));
  }
  if (report_.total.byte_ff_blocks > 0) {
    report_.warnings.push_back(
        fmt::format("{} blocks of the source have scale byte 255 (NaN)", report_.total.byte_ff_blocks));
  }
  for (const ShardVerification& shard : report_.shards)
    report_.verdict = std::max(report_.verdict, shard.verdict);
  if (report_.failures.count > 0) report_.verdict = Verdict::kFailed;
}

}  // namespace
}  // namespace verifying

VerifyReport verify_checkpoint(const std::filesystem::path& source, const std::filesystem::path& output,
                               const VerifyOptions& options) {
  return verifying::CheckpointCheck(source, output, options).run();
}

}  // namespace perigee
