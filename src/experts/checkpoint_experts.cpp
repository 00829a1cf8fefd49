#include "experts/checkpoint_experts.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/tensor_name.h"
#include "experts/nibble_form.h"

namespace perigee {
namespace {

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

// A run may hold bytes that nobody needs, such as scales of activations, up to this part of what is needed.
constexpr std::uint64_t kWastePart = 16;

struct Run {
  std::uint64_t begin = 0;  // in the shard's data buffer
  RunLayout layout;
};

// Spans the tensors of one expert as they are added.
class RunBuilder {
 public:
  void add(const TensorInfo& tensor) {
    begin_ = std::min(begin_, tensor.begin);
    end_ = std::max(end_, tensor.end);
    needed_ += tensor.bytes();
  }
  std::uint64_t begin() const { return begin_; }
  std::uint64_t bytes() const { return end_ - begin_; }
  bool is_dense() const { return bytes() <= needed_ + needed_ / kWastePart; }

 private:
  std::uint64_t begin_ = ~std::uint64_t{0};
  std::uint64_t end_ = 0;
  std::uint64_t needed_ = 0;
};

MatrixPlace place_of(const NibbleForm& form, std::size_t rows, std::size_t columns, std::uint64_t begin) {
  MatrixPlace place;
  place.format = form.format;
  place.rows = rows;
  place.columns = columns;
  place.values = form.values->begin - begin;
  place.scales = form.scales->begin - begin;
  if (form.global != nullptr) {
    place.global = form.global->begin - begin;
    place.global_use = form.global_divides ? MatrixPlace::Global::kDivides : MatrixPlace::Global::kMultiplies;
  }
  return place;
}

Run find_run(const K3Config& config, const SafetensorsHeader& header, const std::string& origin,
             std::uint64_t layer, std::uint64_t expert) {
  const std::uint64_t latent = config.routed_expert_hidden_size, width = config.moe_intermediate_size;
  const FindTensor find = [&](const std::string& name) { return header.find(name); };
  std::array<NibbleForm, 3> forms;
  RunBuilder span;
  for (const Projection projection : {Projection::kW1, Projection::kW2, Projection::kW3}) {
    const bool is_down = projection == Projection::kW2;
    NibbleForm& form = forms[static_cast<std::size_t>(projection) - 1];
    form = find_nibble_form(find, expert_module_name(layer, expert, projection), is_down ? latent : width,
                            is_down ? width : latent, origin);
    for (const TensorInfo* tensor : {form.values, form.scales, form.global}) {
      if (tensor != nullptr) span.add(*tensor);
    }
  }
  if (!span.is_dense()) {
    fail(ErrorCode::kUnsupported,
         "{}: the tensors of {} are spread over {} bytes of the file, so the expert cannot be read at once; "
         "convert the checkpoint, which puts them side by side",
         origin, forms[0].values->name, span.bytes());
  }
  Run run;
  run.begin = span.begin();
  run.layout.bytes = span.bytes();
  for (std::size_t i = 0; i < forms.size(); ++i) {
    run.layout.matrices[i] = place_of(forms[i], i == 1 ? latent : width, i == 1 ? width : latent, run.begin);
  }
  return run;
}

class TableBuilder {
 public:
  explicit TableBuilder(const K3Config& config) : config_(config) {
    table_.experts = config.num_experts;
    for (std::uint64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      table_.has_experts.push_back(config.is_moe(layer));
    }
    first_ = table_.first_records();
    table_.records.assign(config.moe_layers() * config.num_experts, {kNowhere, 0, 0, 0});
  }

  // Every expert whose w1 begins in this shard; its other tensors must be there too.
  void add_shard(const ShardHeader& shard, std::uint32_t number, const std::string& origin) {
    for (const TensorInfo& tensor : shard.header.tensors) {
      const TensorName name = parse_tensor_name(tensor.name);
      if (name.tensor_class != TensorClass::kExpert || name.projection != Projection::kW1) continue;
      if (name.part != Part::kWeight && name.part != Part::kWeightPacked) continue;
      const auto layer = static_cast<std::uint64_t>(name.layer);
      const auto expert = static_cast<std::uint64_t>(name.expert);
      if (layer >= config_.num_hidden_layers || !config_.is_moe(layer)) continue;
      if (expert >= config_.num_experts) {
        fail(ErrorCode::kUnsupported, "{} has {}, but config.json asks for {} experts a layer", origin,
             tensor.name, config_.num_experts);
      }
      const Run run = find_run(config_, shard.header, origin, layer, expert);
      table_.records[first_[layer] + expert] = {number, number_of(run.layout),
                                                shard.header.data_offset + run.begin, 0};
    }
  }

  ExpertTable finish(const std::filesystem::path& checkpoint) {
    for (std::uint64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      if (!config_.is_moe(layer)) continue;
      for (std::uint64_t expert = 0; expert < config_.num_experts; ++expert) {
        if (table_.records[first_[layer] + expert].file != kNowhere) continue;
        fail(ErrorCode::kNotFound, "{} has no weights of {}, which config.json asks for", checkpoint.string(),
             expert_module_name(layer, expert, Projection::kW1));
      }
    }
    return std::move(table_);
  }

 private:
  std::uint32_t number_of(const RunLayout& layout) {
    const auto next = static_cast<std::uint32_t>(table_.layouts.size());
    const auto [found, is_new] = numbers_.try_emplace(layout, next);
    if (is_new) table_.layouts.push_back(layout);
    return found->second;
  }

  const K3Config& config_;
  ExpertTable table_;
  std::vector<std::uint64_t> first_;
  std::map<RunLayout, std::uint32_t> numbers_;
};

}  // namespace

CheckpointExperts find_checkpoint_experts(const std::filesystem::path& checkpoint, const K3Config& config,
                                          const CheckpointIndex& index, const ReadShardHeader& read_header) {
  TableBuilder builder(config);
  CheckpointExperts found;
  for (const std::string& name : index.shards) {
    const ShardHeader shard = read_header(name);
    builder.add_shard(shard, static_cast<std::uint32_t>(found.files.size()), (checkpoint / name).string());
    found.files.push_back(checkpoint / name);
  }
  found.table = builder.finish(checkpoint);
  return found;
}

std::unique_ptr<ExpertFiles> open_checkpoint_experts(const std::filesystem::path& checkpoint) {
  const K3Config config = load_config(checkpoint / "config.json");
  const CheckpointIndex index = load_checkpoint_index(checkpoint);
  const auto read_header = [&](const std::string& name) {
    return read_shard_header(checkpoint, index, name);
  };
  CheckpointExperts found = find_checkpoint_experts(checkpoint, config, index, read_header);
  return make_expert_files(std::move(found.table), std::move(found.files));
}

}  // namespace perigee
