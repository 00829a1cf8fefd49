#include "checkpoint/overview.h"

#include <algorithm>
#include <set>
#include <span>
#include <system_error>

#include "base/error.h"
#include "checkpoint/index.h"
#include "checkpoint/layout_check.h"
#include "checkpoint/safetensors.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

// Everything that is gathered while the shards pass by.
struct Survey {
  explicit Survey(const fs::path& path) : checkpoint(path) {}

  const fs::path& checkpoint;
  CheckpointIndex index;
  std::vector<std::vector<const IndexEntry*>> entries_of;  // by shard
  std::optional<K3Config> config;
  std::optional<LayoutCheck> layout;
  CheckpointOverview result;
  std::set<std::int32_t> kda, mla, dense, moe;
  std::uint64_t padded_a_logs = 0, a_log_entries = 0;

  void add_finding(FindingKind kind, std::string text, bool harmless = false) {
    result.findings.push_back({kind, harmless, std::move(text)});
  }
};

void load_config_if_possible(Survey& survey) {
  try {
    survey.config = load_config(survey.checkpoint / "config.json");
    survey.layout.emplace(*survey.config);
  } catch (const Error& error) {
    survey.add_finding(FindingKind::kConfig, fmt::format("{}; shapes are not checked", error.what()));
  }
}

void note_layer_kind(const TensorName& name, Survey& survey) {
  if (name.layer < 0) return;
  if (name.module.ends_with("self_attn.kv_b_proj")) survey.mla.insert(name.layer);
  if (name.module.ends_with("self_attn.q_conv1d")) survey.kda.insert(name.layer);
  if (name.tensor_class == TensorClass::kDenseMlp) survey.dense.insert(name.layer);
  if (name.tensor_class == TensorClass::kRouter) survey.moe.insert(name.layer);
}

bool all_zero_from(std::span<const std::byte> bytes, DType dtype, std::uint64_t first) {
  const std::size_t width = dtype_bits(dtype) / 8;
  for (std::size_t i = first * width; i < bytes.size(); ++i) {
    const bool is_sign_byte = i % width == width - 1;
    const std::byte relevant = is_sign_byte ? bytes[i] & std::byte{0x7F} : bytes[i];
    if (relevant != std::byte{0}) return false;
  }
  return true;
}

// docs/formats.md: the release pads A_log with zeros; anything else behind the heads is a fault.
void check_a_log(const SafetensorsFile& shard, const TensorInfo& tensor, Survey& survey) {
  constexpr std::uint64_t kMaxBytes = 1 << 20;
  const std::uint64_t heads = survey.config->kda_num_heads;
  const std::uint64_t entries = tensor.elements();
  const bool is_float =
      tensor.dtype == DType::kF32 || tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16;
  if (entries < heads || !is_float || tensor.bytes() > kMaxBytes) {
    survey.add_finding(FindingKind::kALog,
                       fmt::format("{} is {} {}; {} heads need at least that many floats", tensor.name,
                                   dtype_name(tensor.dtype), shape_text(tensor.shape), heads));
  } else if (entries > heads) {
    if (all_zero_from(shard.read(tensor.name), tensor.dtype, heads)) {
      ++survey.padded_a_logs;
      survey.a_log_entries = entries;
    } else {
      survey.add_finding(
          FindingKind::kALog,
          fmt::format("{} has {} entries for {} heads and the rest is not zero; an engine must not "
                      "load it",
                      tensor.name, entries, heads));
    }
  }
}

void add_tensor(const SafetensorsFile& shard, const TensorInfo& tensor, Survey& survey) {
  const TensorName name = parse_tensor_name(tensor.name);
  CheckpointOverview& result = survey.result;
  result.inventory.add(tensor);
  ClassSummary& summary =
      result.classes[survey.config ? class_in_layer(name, *survey.config) : name.tensor_class];
  for (ClassTotals* totals : {&summary.total, &summary.by_dtype[std::string(dtype_name(tensor.dtype))]}) {
    ++totals->tensors;
    totals->bytes += tensor.bytes();
  }
  note_layer_kind(name, survey);
  const bool expert = name.tensor_class == TensorClass::kExpert;
  if (expert) {
    result.has_input_scale |= name.part == Part::kInputScale || name.part == Part::kInputGlobalScale;
  } else if (tensor.dtype == DType::kF8E4M3) {
    result.has_fp8_attention = true;
  }
  if (name.tensor_class == TensorClass::kUnknown) {
    survey.add_finding(FindingKind::kUnknownName,
                       fmt::format("{} ({} {}) is not a name of the released model", tensor.name,
                                   dtype_name(tensor.dtype), shape_text(tensor.shape)));
  } else if (survey.layout) {
    if (tensor.name.ends_with("self_attn.A_log")) check_a_log(shard, tensor, survey);
    if (auto fault = survey.layout->fault_of(tensor))
      survey.add_finding(FindingKind::kShape, std::move(*fault));
  }
}

void detect_format(const SafetensorsHeader& header, const std::string& origin, Survey& survey) {
  try {
    const ExpertFormat format = detect_expert_format(header, origin);
    ExpertFormat& known = survey.result.expert_format;
    if (format == ExpertFormat::kNone || format == known) return;
    if (known != ExpertFormat::kNone) {
      survey.add_finding(FindingKind::kManifest,
                         fmt::format("{} holds experts as {}, earlier shards as {}", origin,
                                     expert_format_name(format), expert_format_name(known)));
    }
    known = format;
  } catch (const Error& error) {
    survey.add_finding(FindingKind::kManifest, error.what());
  }
}

void compare_with_index(const SafetensorsHeader& header, std::uint32_t shard_number, Survey& survey) {
  const CheckpointIndex& index = survey.index;
  const std::string& file_name = index.shards[shard_number];
  for (const TensorInfo& tensor : header.tensors) {
    const std::string* indexed = index.shard_of(tensor.name);
    if (!indexed) {
      survey.add_finding(FindingKind::kIndex,
                         fmt::format("{} holds {}, which the index does not name; tools that "
                                     "follow the index lose it",
                                     file_name, tensor.name));
    } else if (*indexed != file_name) {
      survey.add_finding(FindingKind::kIndex, fmt::format("{} holds {}, which the index places in {}",
                                                          file_name, tensor.name, *indexed));
    }
  }
}

void add_shard(std::uint32_t shard_number, Survey& survey) {
  const std::string& file_name = survey.index.shards[shard_number];
  const fs::path path = survey.checkpoint / file_name;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    survey.add_finding(FindingKind::kMissingShard, fmt::format("{} is indexed but not there", file_name));
    return;
  }
  std::optional<SafetensorsFile> shard;
  try {
    shard = SafetensorsFile::open(path);
  } catch (const Error& error) {
    survey.add_finding(FindingKind::kUnreadable, error.what());
    return;
  }
  ++survey.result.shards_present;
  survey.result.file_bytes += shard->file.size();
  for (const TensorInfo& tensor : shard->header.tensors) add_tensor(*shard, tensor, survey);
  detect_format(shard->header, file_name, survey);
  compare_with_index(shard->header, shard_number, survey);
  for (const IndexEntry* entry : survey.entries_of[shard_number]) {
    if (!shard->header.by_name.contains(entry->name)) {
      survey.add_finding(FindingKind::kIndex,
                         fmt::format("the index places {} in {}, which lacks it", entry->name, file_name));
    }
  }
}

void find_split_pairs(Survey& survey) {
  struct Pair {
    std::int64_t w1 = -1, w3 = -1;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Pair> pairs;
  for (const IndexEntry& entry : survey.index.entries) {
    const TensorName name = parse_tensor_name(entry.name);
    if (name.tensor_class != TensorClass::kExpert || name.part != Part::kWeightScale) continue;
    Pair& pair = pairs[{name.layer, name.expert}];
    if (name.projection == Projection::kW1) pair.w1 = entry.shard;
    if (name.projection == Projection::kW3) pair.w3 = entry.shard;
  }
  for (const auto& [key, pair] : pairs) {
    if (pair.w1 == pair.w3) continue;
    survey.add_finding(
        FindingKind::kSplitPair,
        fmt::format("layer {} expert {}: w1 and w3 are not in the same shard; they must share one scale",
                    key.first, key.second));
  }
}

void find_stray_files(Survey& survey) {
  std::error_code error;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(survey.checkpoint, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".safetensors" &&
        !std::ranges::binary_search(survey.index.shards, name)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    survey.add_finding(FindingKind::kStrayFile,
                       fmt::format("{} is not in the index; some loaders read every safetensors file", name));
  }
}

void compare_manifest(Survey& survey) {
  CheckpointOverview& result = survey.result;
  try {
    result.manifest_format = read_manifest_format(survey.checkpoint);
  } catch (const Error& error) {
    survey.add_finding(FindingKind::kManifest, error.what());
    return;
  }
  if (result.shards_present > 0 && *result.manifest_format != result.expert_format) {
    survey.add_finding(
        FindingKind::kManifest,
        fmt::format("the manifest claims {}, the tensors are {}; loaders believe the manifest",
                    expert_format_name(*result.manifest_format), expert_format_name(result.expert_format)));
  }
}

void compare_totals(Survey& survey) {
  const CheckpointOverview& result = survey.result;
  const bool complete = result.shards_present == result.shards_indexed;
  if (complete && result.total_size && *result.total_size != result.inventory.bytes) {
    survey.add_finding(FindingKind::kIndex,
                       fmt::format("the index says total_size {}, the shards hold {} bytes",
                                   *result.total_size, result.inventory.bytes));
  }
  if (survey.padded_a_logs > 0) {
    survey.add_finding(
        FindingKind::kALog,
        fmt::format("A_log has {} entries for {} heads in {} layers; the rest is exactly zero, as released",
                    survey.a_log_entries, survey.config->kda_num_heads, survey.padded_a_logs),
        true);
  }
}

}  // namespace

const char* finding_kind_name(FindingKind kind) {
  switch (kind) {
    case FindingKind::kConfig:
      return "config";
    case FindingKind::kManifest:
      return "manifest";
    case FindingKind::kMissingShard:
      return "missing-shard";
    case FindingKind::kUnreadable:
      return "unreadable";
    case FindingKind::kIndex:
      return "index";
    case FindingKind::kStrayFile:
      return "stray-file";
    case FindingKind::kSplitPair:
      return "split-pair";
    case FindingKind::kUnknownName:
      return "unknown-name";
    case FindingKind::kShape:
      return "shape";
    case FindingKind::kAbsent:
      return "absent";
    case FindingKind::kALog:
      return "a-log";
  }
  return "?";
}

CheckpointOverview survey_checkpoint(const fs::path& checkpoint) {
  Survey survey(checkpoint);
  survey.index = load_checkpoint_index(checkpoint);
  survey.entries_of.resize(survey.index.shards.size());
  for (const IndexEntry& entry : survey.index.entries) survey.entries_of[entry.shard].push_back(&entry);
  load_config_if_possible(survey);
  CheckpointOverview& result = survey.result;
  result.shards_indexed = survey.index.shards.size();
  result.indexed_tensors = survey.index.entries.size();
  result.total_size = survey.index.total_size;
  for (std::uint32_t i = 0; i < survey.index.shards.size(); ++i) add_shard(i, survey);
  result.kda_layers = survey.kda.size();
  result.mla_layers = survey.mla.size();
  result.dense_layers = survey.dense.size();
  result.moe_layers = survey.moe.size();
  compare_manifest(survey);
  compare_totals(survey);
  find_split_pairs(survey);
  find_stray_files(survey);
  if (survey.layout) {
    for (std::string& text : survey.layout->absent_from(survey.index)) {
      survey.add_finding(FindingKind::kAbsent, std::move(text));
    }
  }
  return std::move(survey.result);
}

}  // namespace perigee
