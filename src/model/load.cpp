// Loads a whole model: its layers (model/layer_loader.h) and the tensors outside layers.
#include <deque>

#include "model/architecture.h"
#include "model/layer_loader.h"
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

void want_all(const K3Config& config, TensorReader& reader, TextWeights& text, ResidentExperts& experts) {
  LayerLoader loader(config, reader);
  loader.matrix("language_model.model.embed_tokens", config.vocab_size, config.hidden_size,
                text.embed_tokens);
  loader.matrix("language_model.lm_head", config.vocab_size, config.hidden_size, text.lm_head);
  loader.norm("language_model.model.norm", text.norm);
  loader.norm("language_model.model.output_attn_res_norm", text.output_attn_res_norm);
  loader.residual_proj("language_model.model.output_attn_res_proj", text.output_attn_res_proj);
  text.layers.resize(config.num_hidden_layers);
  for (std::uint64_t i = 0; i < config.num_hidden_layers; ++i) {
    loader.want_layer(i, text.layers[i]);
    if (!config.is_moe(i)) continue;
    for (std::uint64_t e = 0; e < config.num_experts; ++e) loader.want_expert(i, e, experts.at(i, e));
  }
  reader.check_nothing_left(config.num_hidden_layers);
}

}  // namespace

struct LoadedModel::Storage {
  Storage(K3Config loaded)
      : config(std::move(loaded)), experts(config.num_hidden_layers, config.num_experts) {}
  K3Config config;
  TextWeights text;
  ResidentExperts experts;
  WeightArena arena;
  std::deque<std::vector<float>> vectors;
};

LoadedModel LoadedModel::load(const std::filesystem::path& checkpoint, const Options& options) {
  auto storage = std::make_unique<Storage>(load_config(checkpoint / "config.json"));
  check_architecture(checkpoint / "config.json");
  TensorReader reader(std::make_shared<CheckpointTensors>(CheckpointTensors::of_checkpoint(checkpoint)));
  want_all(storage->config, reader, storage->text, storage->experts);
  check_memory(reader.memory_bytes(), options.memory_limit_bytes);
  reader.read(storage->arena, options.progress);
  storage->vectors = reader.take_vectors();
  const LayerLoader loader(storage->config, reader);
  for (std::size_t i = 0; i < storage->text.layers.size(); ++i)
    loader.finish_layer(i, storage->text.layers[i]);
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
  return storage_->experts;
}
std::uint64_t LoadedModel::bytes() const {
  return storage_->arena.bytes();
}

}  // namespace perigee
