#include "synth/shard_layout.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/tensor_name.h"
#include "synth/random.h"

namespace perigee::synth {
namespace {

// Moves w3 of the stressed experts to the following shard; the head's shard follows the last layer.
void split_pairs(std::vector<SchemaShard>& shards, std::uint64_t every) {
  std::vector<TensorInfo> moving;
  for (SchemaShard& shard : shards) {
    std::vector<TensorInfo> arriving = std::move(moving);
    moving.clear();
    std::vector<TensorInfo> staying;
    for (TensorInfo& tensor : shard.tensors) {
      const TensorName name = parse_tensor_name(tensor.name);
      const bool moves = name.tensor_class == TensorClass::kExpert && name.projection == Projection::kW3 &&
                         static_cast<std::uint64_t>(name.expert) % every == 0;
      (moves ? moving : staying).push_back(std::move(tensor));
    }
    std::move(arriving.begin(), arriving.end(), std::back_inserter(staying));
    shard.tensors = std::move(staying);
  }
}

void shuffle(std::vector<TensorInfo>& tensors, std::uint64_t seed) {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < tensors.size(); ++i) order.emplace_back(stream_key(~seed, tensors[i].name), i);
  std::sort(order.begin(), order.end());
  std::vector<TensorInfo> shuffled;
  shuffled.reserve(tensors.size());
  for (const auto& [key, i] : order) shuffled.push_back(std::move(tensors[i]));
  tensors = std::move(shuffled);
}

void add_extra_tensor(std::vector<SchemaShard>& shards, const std::string& name, const K3Config& config) {
  for (const SchemaShard& shard : shards) {
    for (const TensorInfo& tensor : shard.tensors) {
      if (tensor.name == name)
        fail(ErrorCode::kUsage, "--extra-tensor {}: the checkpoint has this tensor anyway", name);
    }
  }
  TensorInfo extra;
  extra.name = name;
  extra.dtype = DType::kBF16;
  extra.shape = {config.hidden_size};
  shards.back().tensors.push_back(std::move(extra));
}

void check(const K3Config& config, const SynthOptions& options) {
  constexpr unsigned kMaxSpan = 24, kMaxUneven = 64;
  const ExpertStress& stress = options.experts;
  if (stress.every == 0) fail(ErrorCode::kUsage, "--every 0: must be at least 1");
  if (stress.span.value_or(0) > kMaxSpan)
    fail(ErrorCode::kUsage, "--span {}: must be at most {}", *stress.span, kMaxSpan);
  if (stress.uneven_pair > kMaxUneven) {
    fail(ErrorCode::kUsage, "--uneven-pair {}: must be at most {}", stress.uneven_pair, kMaxUneven);
  }
  for (const auto& [name, value] : {std::pair{"--negative-zeros", stress.negative_zeros},
                                    std::pair{"--zero-groups", stress.zero_groups}}) {
    if (!(value >= 0 && value <= 1)) fail(ErrorCode::kUsage, "{} {}: must be from 0 to 1", name, value);
  }
  if (options.a_log_tail && config.kda_head_dim <= config.kda_num_heads) {
    fail(ErrorCode::kUsage,
         "--a-log-tail: A_log has no padding because there are {} heads and head_dim is {}",
         config.kda_num_heads, config.kda_head_dim);
  }
}

}  // namespace

std::vector<SchemaShard> shard_layout(const K3Config& config, const SynthOptions& options) {
  check(config, options);
  std::vector<SchemaShard> shards = released_layout(config);
  if (options.split_pairs) split_pairs(shards, options.experts.every);
  if (!options.extra_tensor.empty()) add_extra_tensor(shards, options.extra_tensor, config);
  for (SchemaShard& shard : shards) {
    if (options.shuffle) shuffle(shard.tensors, options.seed);
    assign_offsets(shard.tensors);
  }
  return shards;
}

std::vector<SchemaShard> chosen_shards(const std::vector<SchemaShard>& all, const SynthOptions& options) {
  if (options.shards.empty()) return all;
  std::vector<std::uint64_t> numbers = options.shards;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<SchemaShard> chosen;
  for (const std::uint64_t number : numbers) {
    if (number == 0 || number > all.size()) {
      fail(ErrorCode::kUsage, "--shards {}: there are {} shards, counted from 1", number, all.size());
    }
    chosen.push_back(all[number - 1]);
  }
  return chosen;
}

CheckpointIndex index_of(const std::vector<SchemaShard>& shards) {
  CheckpointIndex index;
  index.total_size = 0;
  for (const SchemaShard& shard : shards) {
    for (const TensorInfo& tensor : shard.tensors) {
      index.entries.push_back({tensor.name, static_cast<std::uint32_t>(index.shards.size())});
    }
    *index.total_size += shard.tensors.back().end;
    index.shards.push_back(shard.file_name);
  }
  index.rebuild_lookup();
  return index;
}

}  // namespace perigee::synth
