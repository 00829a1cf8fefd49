#include "convert/job_setup.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/version.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestWait = 1e8;  // three years

bool is_inside(const fs::path& inner, const fs::path& outer) {
  const auto [outer_end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return outer_end == outer.end();
}

void check_folders(const ConvertOptions& options) {
  if (!fs::is_directory(options.source)) {
    fail(ErrorCode::kNotFound, "{} is not a folder; give the folder that holds config.json and the shards",
         options.source.string());
  }
  const fs::path source = fs::weakly_canonical(options.source);
  const fs::path output = fs::weakly_canonical(options.output);
  if (is_inside(output, source) || is_inside(source, output)) {
    fail(ErrorCode::kUsage, "source {} and output {} must be separate folders, neither inside the other",
         source.string(), output.string());
  }
}

void check_combinations(const ConvertOptions& options) {
  if (options.world_size == 0 || options.rank >= options.world_size) {
    fail(ErrorCode::kUsage, "--rank {} needs a --world-size above it, not {}", options.rank,
         options.world_size);
  }
  if (options.delete_source && options.verify != VerifyMode::kFull) {
    fail(ErrorCode::kUsage, "--delete-source needs --verify full: a shard goes only after its own proof");
  }
  if (options.overwrite && options.world_size > 1) {
    fail(ErrorCode::kUsage,
         "--overwrite with several ranks would let one erase the work of another; empty the folder first");
  }
  if (options.overwrite && options.resume_only) {
    fail(ErrorCode::kUsage, "--overwrite starts anew and --resume goes on; choose one");
  }
  if (!(options.wait_timeout_seconds >= 0) || options.wait_timeout_seconds > kLongestWait) {
    fail(ErrorCode::kUsage, "--wait {} must be between 0 and {} seconds", options.wait_timeout_seconds,
         kLongestWait);
  }
  if (options.policy.max_over == MaxOver::kAllNonzeroBytes &&
      (options.policy.method != Method::kCast || options.policy.over_span != OverSpan::kFail)) {
    fail(ErrorCode::kUsage, "--kmax all-nonzero-bytes goes only with --method cast --over-span fail");
  }
}

bool has_input_scales(const CheckpointIndex& index) {
  return std::ranges::any_of(index.entries, [](const IndexEntry& entry) {
    const TensorName name = parse_tensor_name(entry.name);
    return name.tensor_class == TensorClass::kExpert &&
           (name.part == Part::kInputScale || name.part == Part::kInputGlobalScale);
  });
}

std::string index_digest(const CheckpointIndex& index) {
  Sha256 hash;
  for (const IndexEntry& entry : index.entries) {
    const std::string line = entry.name + "\t" + index.shards[entry.shard] + "\n";
    hash.update(std::as_bytes(std::span(line)));
  }
  return hash.finish_hex();
}

}  // namespace

const char* method_name(Method method) {
  switch (method) {
    case Method::kCast:
      return "cast";
    case Method::kRequant:
      return "requant";
    case Method::kFourOverSix:
      return "requant-4over6";
  }
  return "?";
}

void check_job_options(const ConvertOptions& options) {
  check_combinations(options);
  check_folders(options);
}

Conversion make_conversion(const ConvertOptions& options, const CheckpointIndex& index) {
  const ExpertFormat source = read_manifest_format(options.source);
  if (source == ExpertFormat::kNone) {
    fail(ErrorCode::kUnsupported, "{} has no quantization_config; it is not a 4-bit K3 checkpoint",
         (options.source / "config.json").string());
  }
  if (source == ExpertFormat::kMxfp4 && options.layout == Layout::kMxfp4) {
    fail(ErrorCode::kUsage, "{} is MXFP4 already; --layout mxfp4 is for NVFP4 checkpoints",
         options.source.string());
  }
  if (source != ExpertFormat::kMxfp4 && options.policy.method != Method::kCast) {
    fail(ErrorCode::kUsage, "--method {} needs an MXFP4 source; {} is {}, which can only be transcoded",
         method_name(options.policy.method), options.source.string(), expert_format_name(source));
  }
  return {source, has_input_scales(index), options.layout, options.activations};
}

std::string job_fingerprint(const ConvertOptions& options, const Conversion& conversion,
                            const CheckpointIndex& index, const std::vector<std::string>& selected,
                            const std::string& config) {
  std::string facts = fmt::format(
      "version={} source={} layout={} activations={} method={} over_span={} nan={} kmax={} inexact={} "
      "index={} "
      "config={} shards=",
      kVersion, expert_format_name(conversion.source), layout_name(options.layout),
      activations_name(options.activations), method_name(options.policy.method),
      static_cast<int>(options.policy.over_span), static_cast<int>(options.policy.nan_scale),
      static_cast<int>(options.policy.max_over), static_cast<int>(options.inexact_scale), index_digest(index),
      sha256_hex(std::as_bytes(std::span(config))));
  for (const std::string& shard : selected) facts += shard + ",";
  return sha256_hex(std::as_bytes(std::span(facts)));
}

}  // namespace perigee
