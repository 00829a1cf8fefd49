// Loads a whole model: its layers (model/layer_loader.h) and the tensors outside layers.
#include <deque>
#include <optional>

#include "base/memory.h"
#include "compute/activation_memory.h"
#include "experts/expert_files.h"
#include "experts/slot_pool.h"
#include "experts/streamed_experts.h"
#include "model/architecture.h"
#include "model/layer_loader.h"
#include "model/memory_needs.h"
#include "model/tensor_reader.h"
#include "model/weights.h"

namespace perigee {
namespace {

class ResidentExperts : public MemoryExperts {
 public:
  ResidentExperts(std::uint64_t layers, std::uint64_t experts)
      : layers_(layers, std::vector<ExpertWeights>(experts)) {}
  ExpertWeights& at(std::uint64_t layer, std::uint64_t expert) { return layers_[layer][expert]; }
  ExpertWeights get(std::uint64_t layer, std::uint64_t expert) const override {
    return layers_[layer][expert];
  }

 private:
  std::vector<std::vector<ExpertWeights>> layers_;
};

void want_trunk(const K3Config& config, TensorReader& reader, TextWeights& text) {
  LayerLoader loader(config, reader);
  loader.matrix("language_model.model.embed_tokens", config.vocab_size, config.hidden_size,
                text.embed_tokens);
  loader.matrix("language_model.lm_head", config.vocab_size, config.hidden_size, text.lm_head);
  loader.norm("language_model.model.norm", text.norm);
  loader.norm("language_model.model.output_attn_res_norm", text.output_attn_res_norm);
  loader.residual_proj("language_model.model.output_attn_res_proj", text.output_attn_res_proj);
  text.layers.resize(config.num_hidden_layers);
  for (std::uint64_t i = 0; i < config.num_hidden_layers; ++i) loader.want_layer(i, text.layers[i]);
}

std::unique_ptr<ResidentExperts> want_experts(const K3Config& config, TensorReader& reader) {
  auto experts = std::make_unique<ResidentExperts>(config.num_hidden_layers, config.num_experts);
  LayerLoader loader(config, reader);
  for (std::uint64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (!config.is_moe(i)) continue;
    for (std::uint64_t e = 0; e < config.num_experts; ++e) loader.want_expert(i, e, experts->at(i, e));
  }
  return experts;
}

MemoryNeeds needs_of(const K3Config& config, const LoadedModel::Options& options, std::uint64_t trunk) {
  MemoryNeeds needs;
  needs.trunk = trunk;
  needs.states = options.sequences * state_bytes(config, options.sequence_tokens, options.precision);
  needs.activations_a_token = activation_bytes_a_token(config);
  needs.expert_count = config.moe_layers() * config.num_experts;
  return needs;
}

// Slots take all that is left, so something must be left for the rest of the program and of the machine.
std::uint64_t memory_for(std::uint64_t limit) {
  return limit > 0 ? limit : available_memory_bytes() / 16 * 15;
}

// Experts that come from files. In a store they never come from anywhere else: to be resident means a slot
// for each.
struct FileExperts {
  std::unique_ptr<ExpertFiles> files;
  MemoryPlan plan;
};

FileExperts plan_file_experts(const std::filesystem::path& folder, MemoryNeeds needs, std::uint64_t available,
                              ExpertHome home) {
  const bool store = is_store(folder);
  FileExperts experts{store ? open_store_experts(folder) : open_checkpoint_experts(folder), {}};
  needs.slot = slot_bytes_for(experts.files->largest_run());
  needs.experts = needs.expert_count * needs.slot;
  experts.plan = plan_memory(needs, available, store ? home : ExpertHome::kStreamed);
  return experts;
}

}  // namespace

struct LoadedModel::Storage {
  explicit Storage(K3Config loaded) : config(std::move(loaded)) {}

  void load_trunk(TensorReader& reader, const Options& options) {
    reader.read(arena, options.progress);
    vectors = reader.take_vectors();
    const LayerLoader layers(config, reader);
    for (std::size_t i = 0; i < text.layers.size(); ++i) layers.finish_layer(i, text.layers[i]);
  }

  K3Config config;
  TextWeights text;
  WeightArena arena;
  std::deque<std::vector<float>> vectors;
  MemoryPlan plan;
  std::optional<ActivationReserve> activations;
  std::unique_ptr<ResidentExperts> resident;
  std::unique_ptr<StreamedExperts> streamed;
};

LoadedModel LoadedModel::load(const std::filesystem::path& checkpoint, const Options& options) {
  auto storage = std::make_unique<Storage>(load_config(checkpoint / "config.json"));
  check_architecture(checkpoint / "config.json");
  const K3Config& config = storage->config;
  TensorReader reader(std::make_shared<CheckpointTensors>(CheckpointTensors::of_checkpoint(checkpoint)));
  want_trunk(config, reader, storage->text);
  MemoryNeeds needs = needs_of(config, options, reader.memory_bytes());
  const std::uint64_t available = memory_for(options.memory_limit_bytes);
  needs.experts = reader.other_expert_bytes();
  FileExperts from_files;
  if (!is_store(checkpoint) && is_resident(needs, available, options.experts)) {
    storage->plan = plan_memory(needs, available, ExpertHome::kResident);
    storage->resident = want_experts(config, reader);
  } else {
    from_files = plan_file_experts(checkpoint, needs, available, options.experts);
    storage->plan = from_files.plan;
  }
  reader.check_nothing_left(config.num_hidden_layers, storage->resident ? 0 : config.num_experts);
  storage->load_trunk(reader, options);
  storage->activations.emplace(storage->plan.activations, options.streaming.lock_memory);
  if (from_files.files) {
    StreamedOptions streaming = options.streaming;
    streaming.slots = storage->plan.slots;
    storage->streamed = std::make_unique<StreamedExperts>(std::move(from_files.files), std::move(streaming));
  }
  return LoadedModel(std::move(storage));
}

LoadedModel::LoadedModel(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
LoadedModel::~LoadedModel() = default;
LoadedModel::LoadedModel(LoadedModel&&) noexcept = default;
LoadedModel& LoadedModel::operator=(LoadedModel&&) noexcept = default;

const K3Config& LoadedModel::config() const {
  return storage_->config;
}
const TextWeights& LoadedModel::text() const {
  return storage_->text;
}
ExpertSource& LoadedModel::experts() const {
  if (storage_->streamed) return *storage_->streamed;
  return *storage_->resident;
}
std::uint64_t LoadedModel::bytes() const {
  return storage_->arena.bytes() + (storage_->streamed ? storage_->plan.experts : 0);
}
const MemoryPlan& LoadedModel::memory_plan() const {
  return storage_->plan;
}
const StreamedExperts* LoadedModel::streamed() const {
  return storage_->streamed.get();
}

}  // namespace perigee
